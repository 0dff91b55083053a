//! The machine's name, for tables of measurements.

use crate::process::Command;

/// Processor, cores and operating system, as far as the system tells.
pub(crate) fn describe() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| model_name(&text))
        .or_else(|| Command::new("sysctl").args(["-n", "machdep.cpu.brand_string"]).read().ok())
        .map_or_else(|| "unknown processor".to_owned(), |name| name.trim().to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_model_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t: a b\n";
        assert_eq!(model_name(text).as_deref(), Some("Some CPU @ 2.0GHz"));
        assert_eq!(model_name("processor: 0\n"), None);
        assert!(!describe().is_empty());
    }
}
