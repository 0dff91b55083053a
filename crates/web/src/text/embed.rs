//! Sentences of the panel for authors.

texts! {
    EMBED = "Put this on your own page";
    EMBED_NOTE = "Two lines of HTML show this experiment, as it is set now, in a course, a blog or a slide. Nothing is loaded before a reader comes near.";
    EMBED_PARTS = "What readers see";
    EMBED_SETTINGS = "Settings that readers may change, with commas; none: as many as there are";
    EMBED_SETTINGS_EXAMPLE = "workload.rate,replicas";
    EMBED_CODE = "The lines";
    EMBED_DISK = "This page was opened from disk: put its folder on a host and take the lines from there, since no other page reaches files of this device.";
    EMBED_COPY = "Copy";
}

/// The parts that can be shown, by their names in the tag.
pub(crate) const EMBED_PART: [(&str, &str); 6] = [
    ("question", "Question"),
    ("predict", "Guess"),
    ("stage", "Fleet"),
    ("controls", "Settings"),
    ("results", "Results"),
    ("charts", "Charts"),
];
