/* The conformance module of abi/SPEC.md. To learn how a module is written, read module.c. */
#include "caisson.h"

CAISSON_FUNCTION(app_ensure);
CAISSON_FUNCTION(app_remove);
CAISSON_FUNCTION(app_list);
CAISSON_FUNCTION(kube_get);
CAISSON_FUNCTION(kube_list);
CAISSON_FUNCTION(kube_apply);
CAISSON_FUNCTION(kube_delete);
CAISSON_FUNCTION(secret_read);
CAISSON_FUNCTION(event);

#define MANIFEST \
	"{\"abi\":1" \
	",\"name\":\"vectors\"" \
	",\"version\":\"1.0.0\"" \
	",\"description\":\"The module that the answers are from.\"" \
	",\"capabilities\":[\"app_ensure\",\"app_remove\",\"app_list\",\"kube_get\",\"kube_list\",\"kube_apply\",\"kube_delete\",\"secret_read\",\"event\"]" \
	",\"kube\":[{\"apiGroup\":\"\",\"kinds\":[\"ConfigMap\",\"Service\"],\"verbs\":[\"get\",\"list\",\"apply\",\"delete\"]}]" \
	",\"reasons\":[{\"code\":\"awaiting_address\",\"sentence\":\"The load balancer has no address yet.\"},{\"code\":\"quota_exceeded\",\"sentence\":\"The project's quota is used up; raise it.\"}]" \
	",\"configSchema\":{\"type\":\"object\"}" \
	",\"requiresDrain\":true}"

/* calls counts in memory: it must be 1 in every call. */
static int64_t calls;

static text ask(text name, text request)
{
	static const struct {
		text name;
		uint64_t (*function)(uint64_t);
	} functions[] = {
		{TEXT("app_ensure"), app_ensure}, {TEXT("app_remove"), app_remove}, {TEXT("app_list"), app_list},
		{TEXT("kube_get"), kube_get}, {TEXT("kube_list"), kube_list}, {TEXT("kube_apply"), kube_apply},
		{TEXT("kube_delete"), kube_delete}, {TEXT("secret_read"), secret_read}, {TEXT("event"), event},
	};
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (equal(functions[i].name, name))
			return caisson_call(functions[i].function, request);
	caisson_fail(JOIN(TEXT("there is no function "), name));
}

static int32_t run(void)
{
	text envelope = caisson_input();
	text config = JSON(envelope, "config"), verb = json_string(JSON(config, "do"));
	if (equal(verb, TEXT("echo"))) {
		caisson_output(JOIN(TEXT("{\"facts\":{\"envelope\":"), envelope, TEXT("}}")));
	} else if (equal(verb, TEXT("answer"))) {
		caisson_output(JSON(config, "output"));
		return (int32_t)number(JSON(config, "code"));
	} else if (equal(verb, TEXT("ask"))) {
		text response = ask(json_string(JSON(config, "function")), JSON(config, "request"));
		caisson_output(JOIN(TEXT("{\"facts\":{\"response\":"), response, TEXT("}}")));
	} else if (equal(verb, TEXT("log"))) {
		text line = json_string(JSON(config, "text"));
		caisson_log_debug(caisson_store(line));
		caisson_log_info(caisson_store(line));
		caisson_log_warn(caisson_store(line));
		caisson_log_error(caisson_store(line));
	} else if (equal(verb, TEXT("fill"))) {
		text fill = {0, (size_t)number(JSON(config, "bytes"))};
		char *to = caisson_take(fill.length);
		for (size_t i = 0; i < fill.length; i++)
			to[i] = 'x';
		fill.at = to;
		caisson_output(JOIN(TEXT("{\"facts\":{\"fill\":\""), fill, TEXT("\"}}")));
	} else if (equal(verb, TEXT("count"))) {
		text count = decimal(number(JSON(JSON(envelope, "state"), "count")) + 1);
		caisson_output(JOIN(TEXT("{\"facts\":{\"memory\":"), decimal(++calls), TEXT("},\"state\":{\"count\":"), count, TEXT("}}")));
	} else { /* and "fail" */
		caisson_fail(json_string(JSON(config, "text")));
	}
	return OK;
}

CAISSON_EXPORT(describe)
{
	caisson_output(TEXT(MANIFEST));
	return OK;
}

CAISSON_EXPORT(provision) { return run(); }

CAISSON_EXPORT(deprovision) { return run(); }
