// mooring: a module in AssemblyScript. It installs one chart, counts how often it had to
// ask in its state, and publishes a fact once everything is ready.
import { Host, LogLevel } from "@extism/as-pdk";
import * as caisson from "./caisson";

@external("extism:host/user", "app_ensure") declare function app_ensure(request: u64): u64;
@external("extism:host/user", "app_remove") declare function app_remove(request: u64): u64;

const manifest = `{
  "abi": 1, "name": "mooring", "version": "1.0.0",
  "description": "Installs a chart, written in AssemblyScript.",
  "capabilities": ["app_ensure", "app_remove"],
  "reasons": [{"code": "still_moving", "sentence": "The ship has not been made fast yet."}]
}`;

// Answers with a disposition, a reason and what the operator may know.
function give(disposition: i32, reason: string, why: string): i32 {
  caisson.output('{"reason":"' + reason + '","why":"' + why + '"}');
  return disposition;
}

// Answers a response that is an error. A code that is not known is treated as unavailable.
function refused(error: Uint8Array): i32 {
  const code = caisson.jsonString(error, "code");
  if (code == "invalid") return give(caisson.TERMINAL, "invalid_config", code);
  if (code == "denied") return give(caisson.USER_ACTION_REQUIRED, "not_granted", code);
  if (code == "forbidden") return give(caisson.USER_ACTION_REQUIRED, "forbidden", code);
  return give(caisson.RETRY, "unexpected", code);
}

export function describe(): i32 {
  caisson.output(manifest);
  return caisson.OK;
}

export function provision(): i32 {
  const envelope = Host.input();
  if (caisson.jsonNumber(envelope, "abi") != 1) {
    return give(caisson.RETRY, "unexpected", "the host speaks another ABI");
  }
  const config = caisson.json(envelope, "config");
  const repo = caisson.jsonString(config, "repo");
  const chart = caisson.jsonString(config, "chart");
  const version = caisson.jsonString(config, "version");
  if (repo == "" || chart == "" || version == "") {
    return give(caisson.TERMINAL, "invalid_config", "repo, chart and version are needed");
  }
  const given = caisson.json(config, "values");
  const values = given.length == 0 ? "{}" : caisson.utf16(given);
  const request =
    '{"repo":"' + repo + '","chart":"' + chart + '","version":"' + version +
    '","namespace":"mooring","createNamespace":true,"values":' + values + "}";
  const response = caisson.call((r) => app_ensure(r), caisson.utf8(request));
  const error = caisson.json(response, "error");
  if (error.length > 0) return refused(error);

  const result = caisson.json(response, "result");
  const disposition = <i32>caisson.jsonNumber(result, "disposition");
  const asked = caisson.jsonNumber(caisson.json(envelope, "state"), "asked") + 1;
  if (disposition == caisson.OK) {
    caisson.log(LogLevel.Info, "ready after asking " + asked.toString() + " times");
    caisson.output('{"facts":{"mooring":"mooring"},"state":null}');
    return caisson.OK;
  }
  let reason = caisson.jsonString(result, "reason");
  if (reason == "") reason = "still_moving";
  caisson.output('{"reason":"' + reason + '","state":{"asked":' + asked.toString() + "}}");
  return disposition;
}

export function deprovision(): i32 {
  const response = caisson.call((r) => app_remove(r), caisson.utf8("{}"));
  const error = caisson.json(response, "error");
  if (error.length > 0) return refused(error);
  const result = caisson.json(response, "result");
  const disposition = <i32>caisson.jsonNumber(result, "disposition");
  if (disposition == caisson.OK) return caisson.OK;
  return give(disposition, caisson.jsonString(result, "reason"), caisson.jsonString(result, "phase"));
}
