// The conformance module of abi/SPEC.md. To learn how a module is written, read module.ts.
import { Host, LogLevel } from "@extism/as-pdk";
import * as caisson from "./caisson";

@external("extism:host/user", "app_ensure") declare function app_ensure(request: u64): u64;
@external("extism:host/user", "app_remove") declare function app_remove(request: u64): u64;
@external("extism:host/user", "app_list") declare function app_list(request: u64): u64;
@external("extism:host/user", "kube_get") declare function kube_get(request: u64): u64;
@external("extism:host/user", "kube_list") declare function kube_list(request: u64): u64;
@external("extism:host/user", "kube_apply") declare function kube_apply(request: u64): u64;
@external("extism:host/user", "kube_delete") declare function kube_delete(request: u64): u64;
@external("extism:host/user", "secret_read") declare function secret_read(request: u64): u64;
@external("extism:host/user", "event") declare function event(request: u64): u64;

const manifest = `{
  "abi": 1,
  "name": "vectors",
  "version": "1.0.0",
  "description": "The module that the answers are from.",
  "capabilities": ["app_ensure", "app_remove", "app_list", "kube_get", "kube_list", "kube_apply", "kube_delete", "secret_read", "event"],
  "kube": [{"apiGroup": "", "kinds": ["ConfigMap", "Service"], "verbs": ["get", "list", "apply", "delete"]}],
  "reasons": [
    {"code": "awaiting_address", "sentence": "The load balancer has no address yet."},
    {"code": "quota_exceeded", "sentence": "The project's quota is used up; raise it."}
  ],
  "configSchema": {"type": "object"},
  "requiresDrain": true
}`;

// Counts in memory: it must be 1 in every call.
let calls = 0;

function ask(name: string, request: Uint8Array): Uint8Array {
  if (name == "app_ensure") return caisson.call((r) => app_ensure(r), request);
  if (name == "app_remove") return caisson.call((r) => app_remove(r), request);
  if (name == "app_list") return caisson.call((r) => app_list(r), request);
  if (name == "kube_get") return caisson.call((r) => kube_get(r), request);
  if (name == "kube_list") return caisson.call((r) => kube_list(r), request);
  if (name == "kube_apply") return caisson.call((r) => kube_apply(r), request);
  if (name == "kube_delete") return caisson.call((r) => kube_delete(r), request);
  if (name == "secret_read") return caisson.call((r) => secret_read(r), request);
  if (name == "event") return caisson.call((r) => event(r), request);
  caisson.fail("there is no function " + name);
  return request;
}

function run(): i32 {
  const envelope = Host.input();
  const config = caisson.json(envelope, "config");
  const verb = caisson.jsonString(config, "do");
  if (verb == "echo") {
    caisson.output('{"facts":{"envelope":' + caisson.utf16(envelope) + "}}");
  } else if (verb == "answer") {
    Host.output(caisson.json(config, "output"));
    return <i32>caisson.jsonNumber(config, "code");
  } else if (verb == "ask") {
    const response = ask(caisson.jsonString(config, "function"), caisson.json(config, "request"));
    caisson.output('{"facts":{"response":' + caisson.utf16(response) + "}}");
  } else if (verb == "log") {
    const text = caisson.jsonString(config, "text");
    caisson.log(LogLevel.Debug, text);
    caisson.log(LogLevel.Info, text);
    caisson.log(LogLevel.Warn, text);
    caisson.log(LogLevel.Error, text);
  } else if (verb == "fill") {
    const fill = "x".repeat(<i32>caisson.jsonNumber(config, "bytes"));
    caisson.output('{"facts":{"fill":"' + fill + '"}}');
  } else if (verb == "count") {
    calls++;
    const count = caisson.jsonNumber(caisson.json(envelope, "state"), "count") + 1;
    caisson.output('{"facts":{"memory":' + calls.toString() + '},"state":{"count":' + count.toString() + "}}");
  } else {
    caisson.fail(caisson.jsonString(config, "text")); // and "fail"
  }
  return caisson.OK;
}

export function describe(): i32 {
  caisson.output(manifest);
  return caisson.OK;
}

export function provision(): i32 {
  return run();
}

export function deprovision(): i32 {
  return run();
}
