//! The page's root: everything is in the library, so that its parts can be tested on the host.

fn main() {
    servelab_web::start();
}
