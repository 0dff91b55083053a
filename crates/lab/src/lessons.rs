//! The guided path, and the questions that interviewers ask: which presets they are, in which order, and what to look at. What is right or wrong is said by the
//! runs themselves: a preset's guess is judged by its judge, and nothing here states a result.

use servelab_spec::catalog::{InterviewInfo, LessonInfo};

/// Title, preset, where to look, what to try, the settings of that, and where it goes on.
type Lesson = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    [&'static str; 3],
);

const LESSONS: [Lesson; 8] = [
    (
        "Why round-robin fails",
        "multi-tenant",
        "Look at *reuse* in the table, and at its last row: what one cache without limits would find. Then at the blocks of two replicas: under round-robin both hold the same tenants' colours, and both keep losing them.",
        "Give every replica room for every system prompt. Does round-robin still lose?",
        &[("engine.blocks", "1024")],
        ["tiny-cache", "shared-prompts", "caches-shared"],
    ),
    (
        "Affinity and its hot spot",
        "hot-tenant",
        "Look at *imbalance*, and at the queue of the replica where the hot tenant lives: affinity sends it there however long the queue is.",
        "Let all tenants send alike. Does affinity without a guard still lose?",
        &[("workload.skew", "0")],
        ["guard", "one-prompt", "long-short"],
    ),
    (
        "Load and affinity together",
        "guard",
        "Look at reuse and imbalance side by side: a tighter guard gives up the first for the second.",
        "Twice as many replicas under the same traffic. Is the same guard still the best?",
        &[("replicas", "8")],
        ["tick-model", "stale-load", "scale-out-fixes"],
    ),
    (
        "What to scale on",
        "weekday",
        "Look at the green line beside the blue one in *Demand and capacity*: how long before the first red minute does each signal call?",
        "Nodes stand ready and images are there. How much of the lateness was the signal's, and how much the start's?",
        &[("startup.warm_node", "on"), ("startup.image_pulled", "on")],
        ["cpu-or-gpu", "slow-leak", "holiday-week"],
    ),
    (
        "The cold start",
        "cold-start-parts",
        "Look at the stacked bar from the first late user to the first one served again. *A cold start, stage by stage*, further down, has the same stages to be ticked one by one.",
        "Keep the weights in host memory. Which stage is the longest now?",
        &[("startup.host_cache", "on")],
        ["scale-up-too-late", "quantised-start", "asleep-at-night"],
    ),
    (
        "Drain",
        "scale-down-drops",
        "Look at the replicas as traffic falls: a draining one takes nothing new, finishes what it has, and is gone when its grace period ends, finished or not.",
        "Ten minutes of grace. What does it cost, and whom does it save?",
        &[("scaling.grace_s", "600")],
        ["deploy", "scale-in", "node-loss"],
    ),
    (
        "The storm",
        "retry-storm",
        "Look at attempts per second after the server is back, as a multiple of what it can serve, and at how much of its work is wasted on those who have gone.",
        "Half a minute of outage instead of ten seconds. Who is served last now?",
        &[("faults.down_s", "30")],
        ["metastable", "does-jitter-matter", "backoff-or-budget"],
    ),
    (
        "The whole system",
        "spike-in-a-cold-start",
        "Look at three clocks at once: the spike, the autoscaler's answer to it, and what the gateway does with those for whom there is no room yet.",
        "Take the gateway away. Who waits, and for how long?",
        &[("gateway.on", "off")],
        ["who-says-no", "noisy-tenant", "metastable-remedy"],
    ),
];

const INTERVIEW: [(&str, &[&str]); 13] = [
    ("Why is round-robin poor for LLM serving?", &["multi-tenant"]),
    ("Which metrics should drive autoscaling, and which not?", &["weekday", "slow-leak"]),
    ("What are the parts of a cold start, and what shortens each?", &["cold-start-parts"]),
    ("You went from 2 to 8 replicas and TTFT got worse. Why?", &["scale-out", "scale-out-fixes"]),
    ("The assistant scales to zero over night. What happens to its first users?", &["asleep-at-night"]),
    ("The recovered service falls over again under 429s. Why?", &["metastable", "metastable-remedy"]),
    (
        "Why does prefix-aware routing win past one instance, why scale on the queue and not on utilisation, and what do cold start and drain change?",
        &["datacenter", "cpu-or-gpu", "scale-up-too-late", "deploy"],
    ),
    ("Four replicas, a long shared prompt, high TTFT. What is wrong?", &["shared-prompts"]),
    ("Autoscale on GPU utilisation above 80 %?", &["cpu-or-gpu"]),
    ("Are caches shared across replicas?", &["caches-shared", "shared-store"]),
    ("Scale-up fires, and the SLO is missed all the same. Why?", &["scale-up-too-late"]),
    ("Scale-down drops requests. Why?", &["scale-down-drops"]),
    ("What is the downside of pure prefix affinity?", &["hot-tenant"]),
];

/// The lessons of the guided path, in order.
pub fn lessons() -> Vec<LessonInfo> {
    let lesson = |&(title, preset, look, attempt, set, next): &Lesson| LessonInfo {
        title: title.into(),
        preset: preset.into(),
        look: look.into(),
        attempt: attempt.into(),
        set: set.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
        next: next.map(str::to_owned).to_vec(),
    };
    LESSONS.iter().map(lesson).collect()
}

/// The questions, in order.
pub fn interview() -> Vec<InterviewInfo> {
    let question = |&(question, presets): &(&str, &[&str])| InterviewInfo {
        question: question.into(),
        presets: presets.iter().map(|&preset| preset.to_owned()).collect(),
    };
    INTERVIEW.iter().map(question).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{catalog, presets};
    use servelab_spec::patch;

    #[test]
    fn every_lesson_is_a_guess_a_run_and_something_to_try() {
        for lesson in lessons() {
            let preset = presets::find(&lesson.preset).unwrap_or_else(|| panic!("no preset {}", lesson.preset));
            assert!(preset.prediction.is_some() && presets::judge(&lesson.preset).is_some(), "{}", lesson.preset);
            let tried = lesson
                .set
                .iter()
                .fold(preset.spec.clone(), |spec, (key, value)| patch::set(&spec, key, value).unwrap());
            assert_ne!(tried, preset.spec, "{}: there is nothing to try", lesson.title);
            catalog::check(&tried).unwrap();
            assert!(lesson.attempt.ends_with('?'), "{}", lesson.attempt);
            for next in &lesson.next {
                assert!(presets::find(next).is_some() && *next != lesson.preset, "{}: {next}", lesson.title);
            }
        }
    }

    #[test]
    fn every_question_leads_to_presets_that_answer_it() {
        assert_eq!(interview().len(), 13);
        for asked in interview() {
            assert!(!asked.presets.is_empty());
            for name in &asked.presets {
                assert!(presets::find(name).is_some(), "{}: no preset {name}", asked.question);
                assert!(presets::judge(name).is_some(), "{}: nobody judges {name}", asked.question);
            }
        }
    }
}
