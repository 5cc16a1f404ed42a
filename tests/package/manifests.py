"""Checks deploy/kubernetes, deploy/compose.yaml and deploy/image.toml against the schemas of Kubernetes, each other
and the server.

manifests.py SERVER: the binary that must accept their configuration.
"""

import copy
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
IMAGE = tomllib.loads((DEPLOY / "image.toml").read_text())
IMAGE_NAME = "encke:" + tomllib.loads((DEPLOY.parent / "Cargo.toml").read_text())["workspace"]["package"]["version"]
SECRETS = {"secret": "0123456789abcdef0123456789abcdef", "api-keys": '["0123456789abcdef"]'}
FOR_COMPOSE = {"ENCKE_SECRET": SECRETS["secret"], "ENCKE_API_KEY": "0123456789abcdef"}


class CheckFailed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise CheckFailed(message)


def seconds(text):
    return float(re.fullmatch(r"(\d+)s", text)[1])


def accepts(server, environment, file):
    """Checks that the server accepts this configuration, by signing a token with it."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "encke.toml")
        written.write_text(file)
        if "ENCKE_SHUTDOWN__SNAPSHOT" in environment:
            # The folder of the snapshot exists only in the container.
            environment = environment | {"ENCKE_SHUTDOWN__SNAPSHOT": f"{folder}/snapshot"}
        command = [server, "token", "--sub", "alice", "--config", str(written)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"the server rejects the configuration: {done.stderr}")


def by_kind(manifests):
    found = {}
    for manifest in manifests:
        found.setdefault(manifest["kind"], []).append(manifest)
    return found


def check_kubernetes(server, manifests):
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    found = by_kind(manifests)
    (deployment,), (configuration,), (budget,) = (found[kind] for kind in ("Deployment", "ConfigMap", "PodDisruptionBudget"))
    pod = deployment["spec"]["template"]
    labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    # Selectors must match existing pods, and traffic must go to existing ports.
    for selector in [deployment["spec"]["selector"]["matchLabels"], budget["spec"]["selector"]["matchLabels"]]:
        check(selector == labels, f"{selector} selects no pod")
    for service in found["Service"]:
        check(service["spec"]["selector"] == labels, f"{service['metadata']['name']} selects no pods")
        for port in service["spec"]["ports"]:
            check(port["targetPort"] in ports, f"no port {port['targetPort']}")
    for probe, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        target = container[f"{probe}Probe"]["httpGet"]
        check(ports.get(target["port"]) == ports["admin"] and target["path"] == path, f"the {probe} probe requests {target}")
    check(budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"], "all pods may be evicted at once")

    # The container must listen on its declared ports, with the configuration file that is mounted at the path
    # in its arguments.
    (mount,), (volume,) = container["volumeMounts"], pod["spec"]["volumes"]
    check(mount["name"] == volume["name"] and volume["configMap"]["name"] == configuration["metadata"]["name"], "the configuration is not mounted")
    file = configuration["data"][Path(container["args"][1]).name]
    check(container["args"] == ["--config", f"{mount['mountPath']}/encke.toml"], "the server reads another file")
    environment = {one["name"]: SECRETS[one["valueFrom"]["secretKeyRef"]["key"]] for one in container["env"]}
    accepts(server, environment, file)
    for name, port in ports.items():
        check(f'{name} = "0.0.0.0:{port}"' in file, f"the server does not listen on {name}")

    drain = seconds(re.search(r'^drain = "(.*)"$', file, re.MULTILINE)[1])
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    check(pod["spec"]["terminationGracePeriodSeconds"] > drain + sleep, "the drain is cut short")
    # Allow for one failed probe, and for the time that the proxy on each node needs.
    check(sleep > container["readinessProbe"]["periodSeconds"], "the drain begins before the pod is removed from the service")
    check(pod["spec"]["enableServiceLinks"] is False, "service links define variables that begin with ENCKE_")

    # Check the requirements of the "restricted" profile of the Pod Security Standards.
    own, of_pod = container["securityContext"], pod["spec"]["securityContext"]
    check(own["allowPrivilegeEscalation"] is False and own["capabilities"]["drop"] == ["ALL"], "privileges can be escalated")
    check(of_pod["runAsNonRoot"] is True and of_pod["seccompProfile"]["type"] == "RuntimeDefault", "the container may run as root")
    check(f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}" == IMAGE["User"], "the user differs from that of the image")
    check(container["image"] == IMAGE_NAME, f"the image is not {IMAGE_NAME}")
    check(own["readOnlyRootFilesystem"] is True, "the root file system is writable")


def check_compose(server, compose):
    encke = compose["services"]["encke"]

    def filled_in(text):
        return re.sub(r"\$\{(\w+)(:\?[^}]*)?\}", lambda match: FOR_COMPOSE[match[1]], text)

    environment = {name: filled_in(value) for name, value in encke["environment"].items()}
    accepts(server, environment, "")
    for listener, published in zip(("PUBLIC", "ADMIN"), encke["ports"], strict=True):
        inside = environment[f"ENCKE_LISTEN__{listener}"].rsplit(":", 1)[1]
        check(published.startswith("127.0.0.1:") and published.endswith(f":{inside}"), f"{published} is not {listener}")
    check(seconds(encke["stop_grace_period"]) > seconds(environment["ENCKE_SHUTDOWN__DRAIN"]), "the drain is cut short")
    (volume,) = encke["volumes"]
    name, place = volume.split(":")
    check(name in compose["volumes"] and environment["ENCKE_SHUTDOWN__SNAPSHOT"].startswith(f"{place}/"), "the snapshot is not on a volume")
    for other in encke["depends_on"]:
        check(f"//{other}:" in environment["ENCKE_ENGINE__URL"], f"the engine is not {other}")
    check(encke["image"] == IMAGE_NAME, f"the image is not {IMAGE_NAME}")

    prometheus = yaml.safe_load(filled_in(compose["configs"]["prometheus"]["content"]))
    mounted = {config["target"]: compose["configs"][config["source"]] for config in compose["services"]["prometheus"]["configs"]}
    for rules in prometheus["rule_files"]:
        check((DEPLOY / mounted[rules]["file"]).is_file(), f"{rules} is missing")
    scrape = prometheus["scrape_configs"][0]
    check(scrape["static_configs"][0]["targets"] == [f"encke:{inside}"], "Prometheus scrapes another target")
    check(f'["{scrape["authorization"]["credentials"]}"]' == environment["ENCKE_AUTH__API_KEYS"], "Prometheus uses another API key")


def must_fail(checked, valid, change, what):
    """Checks that `checked` rejects a change of valid input, with an error that contains `what`."""
    wrong = copy.deepcopy(valid)
    change(wrong)
    try:
        checked(wrong)
    except (CheckFailed, kubernetes_validate.ValidationError) as error:
        check(what in str(error), f"expected {what} in: {error}")
    else:
        raise CheckFailed(f"not detected: {what}")


def main(server):
    texts = [path.read_text() for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))]
    manifests = [manifest for text in texts for manifest in yaml.safe_load_all(text)]
    kubernetes = lambda manifests: check_kubernetes(server, manifests)  # noqa: E731
    kubernetes(manifests)

    def spec(manifests):
        return by_kind(manifests)["Deployment"][0]["spec"]["template"]["spec"]

    def file(manifests):
        return by_kind(manifests)["ConfigMap"][0]["data"]

    for change, what in (
        (lambda all: spec(all).update(terminationGracePeriodSeconds=30), "cut short"),
        (lambda all: spec(all).update(noSuchField=1), "noSuchField"),
        (lambda all: spec(all)["containers"][0]["readinessProbe"]["httpGet"].update(port="metrics"), "readiness"),
        (lambda all: spec(all)["containers"][0]["env"][0].update(name="ENCKE_AUTH__SECRETS"), "auth.secrets"),
        (lambda all: file(all).update({"encke.toml": file(all)["encke.toml"] + "level = 1\nlevels = 2\n"}), "log.level"),
    ):
        must_fail(kubernetes, manifests, change, what)

    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    check_compose(server, compose)
    shorter = lambda compose: compose["services"]["encke"].update(stop_grace_period="5s")  # noqa: E731
    must_fail(lambda compose: check_compose(server, compose), compose, shorter, "cut short")
    accepts(server, dict(variable.split("=", 1) for variable in IMAGE["Env"]) | {"ENCKE_AUTH__SECRET": SECRETS["secret"]}, "")
    print("manifests: all passed")


if __name__ == "__main__":
    main(sys.argv[1])
