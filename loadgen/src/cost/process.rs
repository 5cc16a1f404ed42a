//! What the kernel says about a process, from Linux's `/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};
use tokio::time::Instant;

/// What a process had taken at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// User and system time of all its threads since it began, to the kernel's clock tick.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) descriptors: Option<u64>,
    pub(crate) threads: u64,
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoReading {
    /// There is no such process, or there is none any more.
    Gone,
    Other(String),
}

/// A running process. Another one that gets its number later is not taken for it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    directory: PathBuf,
    /// In clock ticks since the machine began.
    started: u64,
    ticks_per_second: u32,
}

impl Process {
    pub(crate) fn open(pid: u32) -> Result<Self, String> {
        let directory = Path::new("/proc").join(pid.to_string());
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u32::try_from(ticks).ok());
        let ticks_per_second = ticks.filter(|ticks| *ticks > 0).ok_or("the clock tick is unknown")?;
        let stat = read_stat(&directory).map_err(|why| match why {
            NoReading::Gone => format!("there is no process {pid} (that this one can see)"),
            NoReading::Other(why) => format!("cannot sample process {pid}: {why}"),
        })?;
        Ok(Self { directory, started: stat.started, ticks_per_second })
    }

    /// Where resident memory is read from. The roll-up of the mappings is exact, and for who may debug the process;
    /// `statm` is for everyone, and may be off by some hundred kilobytes.
    pub(crate) fn resident_from(&self) -> &'static str {
        if self.read("smaps_rollup").is_ok() { "smaps_rollup" } else { "statm" }
    }

    pub(crate) fn reading(&self) -> Result<Reading, NoReading> {
        let at = Instant::now();
        let stat = read_stat(&self.directory)?;
        if stat.has_ended || stat.started != self.started {
            return Err(NoReading::Gone);
        }
        let seconds = stat.cpu_ticks / u64::from(self.ticks_per_second);
        let rest = stat.cpu_ticks % u64::from(self.ticks_per_second);
        Ok(Reading {
            at,
            cpu: Duration::from_secs(seconds) + Duration::from_secs(rest) / self.ticks_per_second,
            resident_bytes: self.resident_bytes()?,
            descriptors: self.descriptors(),
            threads: stat.threads,
        })
    }

    fn resident_bytes(&self) -> Result<u64, NoReading> {
        if let Some(bytes) = self.read("smaps_rollup").ok().as_deref().and_then(parse_rollup) {
            return Ok(bytes);
        }
        let statm = self.read("statm").map_err(|error| no_reading(&error))?;
        let pages = parse_statm(&statm).ok_or_else(|| NoReading::Other("its statm is odd".to_owned()))?;
        let page_bytes =
            sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok());
        Ok(pages * page_bytes.unwrap_or(4096))
    }

    /// Linux says how many there are as the size of their directory; before 6.2 they had to be counted.
    fn descriptors(&self) -> Option<u64> {
        let directory = self.directory.join("fd");
        let size = fs::metadata(&directory).ok()?.len();
        if size > 0 {
            return Some(size);
        }
        fs::read_dir(directory).ok().map(|files| files.count() as u64)
    }

    fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.directory.join(file))
    }
}

/// What is of interest in `/proc/N/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    /// Its parent has not taken notice of its end yet.
    has_ended: bool,
    cpu_ticks: u64,
    threads: u64,
    started: u64,
}

fn read_stat(directory: &Path) -> Result<Stat, NoReading> {
    let text = fs::read_to_string(directory.join("stat")).map_err(|error| no_reading(&error))?;
    parse_stat(&text).ok_or_else(|| NoReading::Other("its stat is odd".to_owned()))
}

/// A process that ends while one of its files is read answers with ESRCH.
fn no_reading(error: &io::Error) -> NoReading {
    let gone = error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32);
    if gone || error.kind() == io::ErrorKind::NotFound {
        return NoReading::Gone;
    }
    NoReading::Other(error.to_string())
}

/// `1 (name) S ..`: proc_pid_stat(5) counts the fields from 1, and the name may have blanks and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let state = *fields.first()?;
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        has_ended: ["Z", "X"].contains(&state),
        cpu_ticks: number(14)?.checked_add(number(15)?)?,
        threads: number(20)?,
        started: number(22)?,
    })
}

/// The second number of `/proc/N/statm`: resident pages.
fn parse_statm(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The `Rss:` line of `/proc/N/smaps_rollup`, in bytes.
fn parse_rollup(text: &str) -> Option<u64> {
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("Rss:"))?.trim().strip_suffix(" kB")?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str =
        "S 1 2 3 0 -1 4194304 99 0 0 0 70 30 5 6 20 0 8 0 3799170 3133440 383 18446744073709551615";

    #[test]
    fn a_stat_is_read_whatever_the_process_is_called() {
        let expected = Stat { has_ended: false, cpu_ticks: 100, threads: 8, started: 3_799_170 };
        for name in ["encke", "a b", "x) S 1 (y", ") ", "("] {
            assert_eq!(parse_stat(&format!("17 ({name}) {FIELDS}\n")), Some(expected), "{name}");
        }
        for (state, has_ended) in
            [("S", false), ("R", false), ("D", false), ("T", false), ("Z", true), ("X", true)]
        {
            let stat = parse_stat(&format!("17 (encke) {state}{}", &FIELDS[1..]));
            assert_eq!(stat.map(|stat| stat.has_ended), Some(has_ended), "{state}");
        }
        for bad in [
            "",
            "17 encke S",
            "17 (encke) ",
            "17 (encke) S 1 2 3",
            &format!("1 (e) {}", FIELDS.replace("70", "x")),
        ] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
        let too_large = format!("1 (e) {}", FIELDS.replace("70", "18446744073709551615"));
        assert_eq!(parse_stat(&too_large), None);
    }

    #[test]
    fn memory_is_read_in_bytes_and_pages() {
        for (text, bytes) in [
            (
                "00400000-7fff ---p 0 00:00 0 [rollup]\nRss:              1776 kB\nPss:  316 kB\n",
                Some(1_818_624),
            ),
            ("Rss: 0 kB", Some(0)),
            ("Rss: 1776", None),
            ("Rss: 99999999999999999999 kB", None),
            ("Rss: 18446744073709551615 kB", None),
            ("Pss: 316 kB", None),
            ("", None),
        ] {
            assert_eq!(parse_rollup(text), bytes, "{text}");
        }
        for (text, pages) in
            [("765 440 412 5 0 123 0\n", Some(440)), ("765", None), ("a b", None), ("", None)]
        {
            assert_eq!(parse_statm(text), pages, "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_read_and_its_numbers_move() {
        let process = Process::open(std::process::id()).expect("this process is here");
        let before = process.reading().expect("it runs");
        assert!(before.resident_bytes > 100_000 && before.threads > 0);
        let files: Vec<_> = (0..64).map(|_| fs::File::open("/dev/null").expect("it is there")).collect();
        let mut held = vec![0_u8; 8 << 20];
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            held.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        let after = process.reading().expect("it runs still");
        assert!(after.cpu > before.cpu);
        assert!(
            after.resident_bytes >= before.resident_bytes + (6 << 20),
            "{before:?} {after:?}, {}",
            held[0]
        );
        assert!(
            after.descriptors.zip(before.descriptors).is_some_and(|(after, before)| after > before),
            "{}",
            files.len()
        );
        assert!(["smaps_rollup", "statm"].contains(&process.resident_from()));
    }

    #[test]
    fn who_is_not_there_is_told() {
        // Linux numbers no process as high.
        let error = Process::open(u32::MAX).expect_err("there is none");
        assert!(error.contains("no process 4294967295"), "{error}");
    }
}
