//! The conformance module of abi/SPEC.md. To learn how a module is written, read module.rs.
mod caisson;

use caisson::{call, fail, input, json, json_number, json_string, log, output, Level};
use std::cell::Cell;

#[link(wasm_import_module = "extism:host/user")]
extern "C" {
    fn app_ensure(request: u64) -> u64;
    fn app_remove(request: u64) -> u64;
    fn app_list(request: u64) -> u64;
    fn kube_get(request: u64) -> u64;
    fn kube_list(request: u64) -> u64;
    fn kube_apply(request: u64) -> u64;
    fn kube_delete(request: u64) -> u64;
    fn secret_read(request: u64) -> u64;
    fn event(request: u64) -> u64;
}

thread_local! {
    /// Counts in memory: it must be 1 in every call.
    static CALLS: Cell<i64> = Cell::new(0);
}

fn ask(name: &str, request: &str) -> String {
    let function = match name {
        "app_ensure" => app_ensure,
        "app_remove" => app_remove,
        "app_list" => app_list,
        "kube_get" => kube_get,
        "kube_list" => kube_list,
        "kube_apply" => kube_apply,
        "kube_delete" => kube_delete,
        "secret_read" => secret_read,
        "event" => event,
        _ => fail(&format!("there is no function {}", name)),
    };
    call(function, request)
}

fn run() -> i32 {
    let envelope = input();
    let config = json(&envelope, "config").unwrap_or("");
    match json_string(config, "do") {
        "echo" => output(&format!(r#"{{"facts":{{"envelope":{}}}}}"#, envelope)),
        "answer" => {
            output(json(config, "output").unwrap_or(""));
            return json_number(config, "code") as i32;
        }
        "ask" => {
            let response = ask(json_string(config, "function"), json(config, "request").unwrap_or(""));
            output(&format!(r#"{{"facts":{{"response":{}}}}}"#, response));
        }
        "log" => {
            for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
                log(level, json_string(config, "text"));
            }
        }
        "fill" => {
            let fill = "x".repeat(json_number(config, "bytes") as usize);
            output(&format!(r#"{{"facts":{{"fill":"{}"}}}}"#, fill));
        }
        "count" => {
            let memory = CALLS.with(|c| {
                c.set(c.get() + 1);
                c.get()
            });
            let count = json_number(json(&envelope, "state").unwrap_or(""), "count") + 1;
            output(&format!(r#"{{"facts":{{"memory":{}}},"state":{{"count":{}}}}}"#, memory, count));
        }
        _ => fail(json_string(config, "text")), // and "fail"
    }
    caisson::OK
}

#[no_mangle]
pub extern "C" fn describe() -> i32 {
    output(include_str!("../../abi/abitest/vectors/manifest.json"));
    caisson::OK
}

#[no_mangle]
pub extern "C" fn provision() -> i32 {
    run()
}

#[no_mangle]
pub extern "C" fn deprovision() -> i32 {
    run()
}
