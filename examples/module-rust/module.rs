//! anchor: a module in Rust. It installs one chart, counts how often it had to ask in its
//! state, and publishes a fact once everything is ready.
mod caisson;

use caisson::{json, json_number, json_string, OK, RETRY, TERMINAL, USER_ACTION_REQUIRED};

#[link(wasm_import_module = "extism:host/user")]
extern "C" {
    fn app_ensure(request: u64) -> u64;
    fn app_remove(request: u64) -> u64;
}

const MANIFEST: &str = r#"{
  "abi": 1, "name": "anchor", "version": "1.0.0",
  "description": "Installs a chart, written in Rust.",
  "capabilities": ["app_ensure", "app_remove"],
  "reasons": [{"code": "still_moving", "sentence": "The anchor has not reached the ground."}]
}"#;

/// Answers with a disposition, a reason and what the operator may know.
fn give(disposition: i32, reason: &str, why: &str) -> i32 {
    caisson::output(&format!(r#"{{"reason":"{}","why":"{}"}}"#, reason, why));
    disposition
}

/// The disposition and the result of an application, or the answer to a refusal. A code
/// that is not known is treated as unavailable.
fn status(response: &str) -> Result<(i32, &str), i32> {
    if let Some(error) = json(response, "error") {
        let code = json_string(error, "code");
        return Err(match code {
            "invalid" => give(TERMINAL, "invalid_config", code),
            "denied" => give(USER_ACTION_REQUIRED, "not_granted", code),
            "forbidden" => give(USER_ACTION_REQUIRED, "forbidden", code),
            _ => give(RETRY, "unexpected", code),
        });
    }
    let result = json(response, "result").unwrap_or("");
    Ok((json_number(result, "disposition") as i32, result))
}

#[no_mangle]
pub extern "C" fn describe() -> i32 {
    caisson::output(MANIFEST);
    OK
}

#[no_mangle]
pub extern "C" fn provision() -> i32 {
    let envelope = caisson::input();
    if json_number(&envelope, "abi") != 1 {
        return give(RETRY, "unexpected", "the host speaks another ABI");
    }
    let config = json(&envelope, "config").unwrap_or("{}");
    let (repo, chart, version) = (json_string(config, "repo"), json_string(config, "chart"), json_string(config, "version"));
    if repo.is_empty() || chart.is_empty() || version.is_empty() {
        return give(TERMINAL, "invalid_config", "repo, chart and version are needed");
    }
    let values = json(config, "values").unwrap_or("{}");
    let request = format!(
        r#"{{"repo":"{}","chart":"{}","version":"{}","namespace":"anchor","createNamespace":true,"values":{}}}"#,
        repo, chart, version, values
    );
    let response = caisson::call(app_ensure, &request);
    let (disposition, result) = match status(&response) {
        Ok(status) => status,
        Err(answer) => return answer,
    };
    let asked = json_number(json(&envelope, "state").unwrap_or(""), "asked") + 1;
    if disposition == OK {
        caisson::log(caisson::Level::Info, &format!("ready after asking {} times", asked));
        caisson::output(r#"{"facts":{"anchor":"anchor"},"state":null}"#);
        return OK;
    }
    let reason = match json_string(result, "reason") {
        "" => "still_moving",
        reason => reason,
    };
    caisson::output(&format!(r#"{{"reason":"{}","state":{{"asked":{}}}}}"#, reason, asked));
    disposition
}

#[no_mangle]
pub extern "C" fn deprovision() -> i32 {
    let response = caisson::call(app_remove, "{}");
    match status(&response) {
        Ok((OK, _)) => OK,
        Ok((disposition, result)) => give(disposition, json_string(result, "reason"), json_string(result, "phase")),
        Err(answer) => answer,
    }
}
