//! Many runs over the cores of this machine. Who runs what, and when, shows nowhere in the results.

use std::io::{IsTerminal, Write};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Results of `run` for every item, in the order of the items, on up to `jobs` threads (as many as there are cores when `None`). The first
/// error, by item, ends it.
pub(crate) fn spread<I: Sync, T: Send, E: Send>(
    items: &[I],
    jobs: Option<usize>,
    run: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = jobs.unwrap_or_else(cores).clamp(1, items.len().max(1));
    let (next, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Result<T, E>>>> = Mutex::new(items.iter().map(|_| None).collect());
    let told = std::io::stderr().is_terminal();
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = run(item);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            // A thread that panicked ends the program; until then its lock is as good as any.
            let mut results = results.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            results[at] = Some(result);
            if told {
                // A courtesy, on a terminal only: logs of batch jobs need no bar.
                let _ = write!(std::io::stderr(), "\r{done} of {} runs ", items.len());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    if told {
        let _ = write!(std::io::stderr(), "\r{:40}\r", "");
    }
    let results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Items are handed out in order, so nothing is missing before the first error.
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_errors_are_those_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [Some(1), Some(3), Some(1000), None] {
            assert_eq!(spread(&items, jobs, |&item| Ok::<u32, ()>(item * 2)), Ok((0..100).map(|i| 2 * i).collect()));
            let failing = |&item: &u32| if item >= 40 { Err(item) } else { Ok(item) };
            assert_eq!(spread(&items, jobs, failing), Err(40));
        }
        assert_eq!(spread(&[], None, |_: &u32| Ok::<u32, ()>(1)), Ok(vec![]));
    }
}
