//! Certificate authorities trusted for outbound connections.

use std::path::Path;

use rustls::RootCertStore;

use super::files::{PemFile, TlsError};

/// Returns the authorities in the file `ca`, or the system's if `ca` is `None`. `setting` is the
/// configuration key of the file.
///
/// # Errors
/// [`TlsError`], which names the setting and the file.
pub fn authorities(setting: &'static str, ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    match ca {
        Some(path) => in_file(PemFile { setting, path }),
        None => of_this_machine(setting),
    }
}

fn in_file(file: PemFile<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in file.certificates()? {
        roots.add(certificate).map_err(|error| file.error(error))?;
    }
    Ok(roots)
}

fn of_this_machine(setting: &'static str) -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Ignore certificates that rustls cannot parse: a system's store may contain some.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let message = format!(
            "must be set, because the system has no trusted certificate authorities {}",
            why.join(", ")
        );
        return Err(TlsError::new(setting, message.trim_end()));
    }
    Ok(roots)
}
