//! The generators, and what they print: the same for everybody who is compared.

use super::server::{Server, children_seconds};
use crate::steps::output_of;
use std::path::Path;
use std::time::Instant;

/// What one run of a generator has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) per_second: f64,
    /// Of the server, for each request.
    pub(super) cpu_micros: f64,
    pub(super) p50_micros: f64,
    pub(super) p99_micros: f64,
    /// Of `tidegate bench` alone.
    pub(super) p999_micros: f64,
    pub(super) errors: f64,
    /// Of an open load: what was due and could not be sent until the end.
    pub(super) unsent_percent: f64,
    /// Of the generator: when it needs one for each of its threads, it is what limits.
    pub(super) generator_cores: f64,
}

#[derive(Clone, Debug)]
pub(super) enum Generator {
    /// `redis-benchmark -c 50`, with a pipeline and a command.
    RedisBenchmark { port: u16, pipeline: u32, requests: u64, command: String },
    /// `wrk -c 50` with a script.
    Wrk { url: String, script: String, seconds: u32 },
    /// `tidegate bench` with its arguments.
    Bench { arguments: Vec<String> },
}

impl Generator {
    /// As it would be typed.
    pub(super) fn shown(&self) -> String {
        let (program, arguments) = self.command("tidegate");
        let quoted =
            |word: &String| if word.contains(['{', ' ']) { format!("'{word}'") } else { word.clone() };
        format!("{program} {}", arguments.iter().map(quoted).collect::<Vec<_>>().join(" "))
    }

    fn command(&self, tidegate: &str) -> (String, Vec<String>) {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match self {
            Generator::RedisBenchmark { port, pipeline, requests, command } => (
                "redis-benchmark".to_owned(),
                words(format!("-p {port} -c 50 -P {pipeline} -n {requests} -r 100000 --csv {command}")),
            ),
            Generator::Wrk { url, script, seconds } => {
                ("wrk".to_owned(), words(format!("-t 2 -c 50 -d {seconds} --latency -s {script} {url}")))
            }
            Generator::Bench { arguments } => {
                let arguments = std::iter::once("bench".to_owned()).chain(arguments.iter().cloned());
                (tidegate.to_owned(), arguments.chain(["--json".to_owned()]).collect())
            }
        }
    }

    /// Runs it, and counts what the server needed meanwhile.
    pub(super) fn run(&self, tidegate: &Path, server: &Server) -> Result<Sample, String> {
        let (program, arguments) = self.command(&tidegate.display().to_string());
        let (before, own_before) = (server.processor_seconds(), children_seconds());
        let (printed, seconds) = timed(|| output_of(&program, &arguments))?;
        let used = server.processor_seconds() - before;
        let generator_cores = (children_seconds() - own_before) / seconds;
        let read = match self {
            Generator::RedisBenchmark { requests, .. } => redis_benchmark(&printed, *requests),
            Generator::Wrk { .. } => wrk(&printed),
            Generator::Bench { .. } => bench(&printed),
        };
        let (sample, requests) =
            read.ok_or_else(|| format!("{program} printed something else:\n{printed}"))?;
        Ok(Sample { cpu_micros: used / requests * 1e6, generator_cores, ..sample })
    }
}

#[expect(clippy::disallowed_methods, reason = "how long another process ran")]
fn timed<T>(run: impl FnOnce() -> Result<T, String>) -> Result<(T, f64), String> {
    let start = Instant::now();
    run().map(|result| (result, start.elapsed().as_secs_f64()))
}

/// `"CL.THROTTLE …","134228.19","0.205","0.072","0.199","0.247","0.279","1.119"`, after a line of names.
fn redis_benchmark(printed: &str, requests: u64) -> Option<(Sample, f64)> {
    let line = printed.lines().rfind(|line| line.starts_with('"') && !line.starts_with("\"test\""))?;
    let mut fields = line.rsplit(',').map(|field| field.trim_matches('"').parse::<f64>().ok());
    let [_max, p99, _p95, p50, _min, _mean, per_second] = std::array::from_fn(|_| fields.next().flatten());
    let sample = Sample {
        per_second: per_second?,
        p50_micros: p50? * 1000.0,
        p99_micros: p99? * 1000.0,
        ..Sample::default()
    };
    Some((sample, requests as f64))
}

fn wrk(printed: &str) -> Option<(Sample, f64)> {
    let after = |name: &str| {
        let line = printed.lines().find_map(|line| line.trim().strip_prefix(name));
        line.map(str::trim)
    };
    let per_second = after("Requests/sec:")?.parse().ok()?;
    let requests =
        printed.lines().find_map(|line| line.trim().split_once(" requests in "))?.0.parse().ok()?;
    let failed = after("Non-2xx or 3xx responses:").and_then(|count| count.parse().ok()).unwrap_or(0.0);
    let sample = Sample {
        per_second,
        p50_micros: micros(after("50%")?)?,
        p99_micros: micros(after("99%")?)?,
        errors: failed,
        ..Sample::default()
    };
    Some((sample, requests))
}

/// `327.00us`, `1.02ms`, `1.20s`
fn micros(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok()) {
            return Some(number * factor);
        }
    }
    None
}

fn bench(printed: &str) -> Option<(Sample, f64)> {
    let json = printed.lines().find(|line| line.starts_with('{'))?;
    let number = |name: &str| -> Option<f64> {
        let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}']).next()?.parse().ok()
    };
    let errors = ["refused", "timeouts", "lost", "connects"];
    let (answered, unsent) = (number("answered")?, number("unsent").unwrap_or_default());
    let sample = Sample {
        per_second: number("requests_per_s")?,
        p50_micros: number("p50")?,
        p99_micros: number("p99")?,
        p999_micros: number("p99_9").unwrap_or(f64::NAN),
        errors: errors.iter().filter_map(|name| number(name)).sum(),
        unsent_percent: 100.0 * unsent / (answered + unsent).max(1.0),
        ..Sample::default()
    };
    // The warm-up costs the server too, and isn't among the answers.
    let warm_up = number("warm_up_s")?;
    Some((sample, answered * (1.0 + warm_up / number("seconds")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_generators_print_is_read() {
        let csv = "\"test\",\"rps\"\n\"CL.THROTTLE a, b\",\"1000.5\",\"0.2\",\"0.1\",\"0.25\",\"0.3\",\"0.4\",\"1.1\"\n";
        let (sample, requests) = redis_benchmark(csv, 7).unwrap();
        assert_eq!(
            (sample.per_second, sample.p50_micros, sample.p99_micros, requests),
            (1000.5, 250.0, 400.0, 7.0)
        );
        let text =
            "  50%  310.00us\n  99%    1.05ms\n  300 requests in 1.00s, 1MB read\nRequests/sec:    299.5\n";
        let (sample, requests) = wrk(text).unwrap();
        assert_eq!((sample.per_second, sample.p99_micros, requests), (299.5, 1050.0, 300.0));
        let json = "{\"answered\":99,\"errors\":{\"lost\":2},\"latency_us\":{\"p50\":1.5,\"p99\":9,\"p99_9\":11},\
                    \"requests_per_s\":30.0,\"seconds\":3.0,\"unsent\":1,\"warm_up_s\":1.0}";
        let (sample, requests) = bench(json).unwrap();
        assert_eq!((sample.p50_micros, sample.p999_micros, sample.errors), (1.5, 11.0, 2.0));
        assert_eq!((sample.unsent_percent, requests), (1.0, 132.0));
        assert!(bench("nothing").is_none() && wrk("").is_none() && redis_benchmark("", 1).is_none());
    }
}
