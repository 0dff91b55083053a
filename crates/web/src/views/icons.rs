//! Icons: shapes of our own, sized by the text around them.

use leptos::prelude::*;

fn icon(path: &'static str) -> impl IntoView {
    view! {
        <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
            <path d=path fill="currentColor"></path>
        </svg>
    }
}

pub(super) fn play() -> impl IntoView {
    icon("M4 2.5v11l9-5.5z")
}

pub(super) fn pause() -> impl IntoView {
    icon("M4 2.5h3v11H4zM9 2.5h3v11H9z")
}

pub(super) fn step() -> impl IntoView {
    icon("M3 2.5v11l7-5.5zM11 2.5h2v11h-2z")
}

pub(super) fn back() -> impl IntoView {
    icon("M13 2.5v11L6 8zM3 2.5h2v11H3z")
}

pub(super) fn close() -> impl IntoView {
    icon("M3.4 2.3 8 6.9l4.6-4.6 1.1 1.1L9.1 8l4.6 4.6-1.1 1.1L8 9.1l-4.6 4.6-1.1-1.1L6.9 8 2.3 3.4z")
}

pub(super) fn link() -> impl IntoView {
    icon(
        "M6.5 10.9 5.3 12a1.7 1.7 0 0 1-2.4-2.4l2.5-2.5a1.7 1.7 0 0 1 2.4 0l1-1a3.1 3.1 0 0 0-4.4 0L1.9 8.600a3.1 3.1 0 0 0 4.4 4.400l1.200-1.100zM9.500 5.100 10.700 4a1.700 1.700 0 0 1 2.400 2.400l-2.500 2.500a1.700 1.700 0 0 1-2.400 0l-1 1a3.100 3.100 0 0 0 4.400 0l2.500-2.500a3.100 3.100 0 0 0-4.400-4.400L8.500 4.100z",
    )
}

pub(super) fn scheme() -> impl IntoView {
    icon("M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM8 3v10A5 5 0 0 1 8 3z")
}

pub(super) fn terminal() -> impl IntoView {
    icon("M1.5 2.500h13v11h-13zM3 4v8h10V4zM4.300 5.300 7 8l-2.700 2.700-1-1L5 8 3.300 6.300zM8 9.500h3.500V11H8z")
}
