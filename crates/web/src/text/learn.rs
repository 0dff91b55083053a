//! Sentences of the guided path.

texts! {
    PATH_REGION = "Guided path";
    PATH = "A guided path: eight lessons, thirteen questions";
    LESSONS = "Eight lessons";
    INTERVIEW = "What interviewers ask";
    LEARNT = "done";
    LESSON_REGION = "After the run";
    TRY = "One thing to try.";
    TRY_IT = "Try it";
}

/// "Lesson 1 of 8: Why round-robin fails".
pub(crate) fn lesson_of(at: usize, all: usize, title: &str) -> String {
    format!("Lesson {at} of {all}: {title}")
}

/// "2 of 8 done"; nothing before the first.
pub(crate) fn lessons_done(done: usize, all: usize) -> String {
    if done == 0 { String::new() } else { format!("{done} of {all} done") }
}

/// "Lesson 2: Affinity and its hot spot".
pub(crate) fn next_lesson(at: usize, title: &str) -> String {
    format!("Lesson {at}: {title}")
}
