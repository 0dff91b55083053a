//! A worker and the way to it. Messages given before the worker is ready wait here, since a worker drops
//! what reaches it before its wasm has started.

use servelab_spec::protocol::{FromWorker, ToWorker};
use servelab_spec::wire;
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use web_sys::{ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

/// Which worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Simulator and CPU model.
    Cpu,
    /// Simulator and WebGPU model; ten times the bytes, loaded only when asked for.
    Gpu,
    /// A second instance of the first, so that measuring the CPU does not make the stage wait.
    Bench,
}

impl Host {
    fn wasm_name(self) -> &'static str {
        match self {
            Host::Cpu | Host::Bench => "servelab-worker",
            Host::Gpu => "servelab-worker-gpu",
        }
    }
}

/// What a worker tells the page.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes of wasm that have come so far.
    Loading { received: f64 },
    /// It speaks.
    Message(Box<FromWorker>),
    /// It is of no use any more; why.
    Stopped { reason: String },
}

/// A running worker; dropping it ends it.
pub(crate) struct Link {
    worker: Worker,
    state: Rc<RefCell<Waiting>>,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Closure<dyn FnMut(ErrorEvent)>,
}

#[derive(Default)]
struct Waiting {
    ready: bool,
    messages: Vec<JsValue>,
}

impl Link {
    /// Starts a worker; `on_event` hears everything it says.
    ///
    /// # Errors
    /// The browser refuses to start it; why, in its words.
    pub(crate) fn open(host: Host, on_event: impl Fn(Event) + 'static) -> Result<Link, String> {
        let worker = started(host.wasm_name()).map_err(|error| describe(&error))?;
        let state = Rc::new(RefCell::new(Waiting::default()));
        let on_event = Rc::new(on_event);

        let (inner, sender, heard) = (state.clone(), worker.clone(), on_event.clone());
        let on_message = Closure::new(move |event: MessageEvent| {
            let heard_event = read(event.data());
            if matches!(&heard_event, Event::Message(message) if matches!(**message, FromWorker::Ready { .. })) {
                let mut waiting = inner.borrow_mut();
                waiting.ready = true;
                for message in waiting.messages.drain(..) {
                    // A value that was serialised once can always be cloned again.
                    let _ = sender.post_message(&message);
                }
            }
            heard(heard_event);
        });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        let on_error = Closure::new(move |event: ErrorEvent| {
            event.prevent_default();
            let reason = Some(event.message()).filter(|text| !text.is_empty());
            on_event(Event::Stopped { reason: reason.unwrap_or_else(|| "its script did not load".into()) });
        });
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        Ok(Link { worker, state, _on_message: on_message, _on_error: on_error })
    }

    /// Sends a message, at once or as soon as the worker is ready.
    pub(crate) fn post(&self, message: &ToWorker) {
        self.post_with(message, None);
    }

    /// The same with a value beside it, under a name: a file is handed over and not its bytes.
    pub(crate) fn post_with(&self, message: &ToWorker, beside: Option<(&str, &JsValue)>) {
        let Ok(text) = wire::to_text(message) else { return };
        let mut value = JsValue::from(text);
        if let Some((name, with)) = beside {
            let both = js_sys::Object::new();
            // Setting a property of an object just made can not fail.
            let _ = js_sys::Reflect::set(&both, &"message".into(), &value);
            let _ = js_sys::Reflect::set(&both, &name.into(), with);
            value = both.into();
        }
        let mut waiting = self.state.borrow_mut();
        if waiting.ready {
            let _ = self.worker.post_message(&value);
        } else {
            waiting.messages.push(value);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

/// Starts the worker of that name: by the script around the page where it brings its workers along (`www/one/page.js`), else from its folder.
fn started(name: &str) -> Result<Worker, JsValue> {
    let own = js_sys::Reflect::get(&js_sys::global(), &"servelabWorker".into())?;
    if let Some(own) = own.dyn_ref::<js_sys::Function>() {
        return own.call1(&JsValue::NULL, &name.into())?.dyn_into();
    }
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    Worker::new_with_options(&format!("./worker.js?name={name}"), &options)
}

/// The worker's wasm says text; the script around it, before and after the wasm can, an object with the bytes that have come or the reason why it ended.
fn read(data: JsValue) -> Event {
    if let Some(text) = data.as_string() {
        return match wire::from_text::<FromWorker>(&text) {
            Ok(message) => Event::Message(Box::new(message)),
            Err(error) => Event::Stopped { reason: format!("it said something this page does not know ({error})") },
        };
    }
    let said = |name: &str| js_sys::Reflect::get(&data, &name.into()).ok();
    match said("received").and_then(|received| received.as_f64()) {
        Some(received) => Event::Loading { received },
        None => {
            let reason = said("message").and_then(|reason| reason.as_string());
            Event::Stopped { reason: reason.unwrap_or_else(|| "it ended without a reason".into()) }
        }
    }
}

/// A JavaScript error in words.
pub(crate) fn describe(error: &JsValue) -> String {
    match error.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => error.as_string().unwrap_or_else(|| format!("{error:?}")),
    }
}
