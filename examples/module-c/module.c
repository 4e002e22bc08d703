/* harbour: a module in C. It installs one chart, counts how often it had to ask in its
 * state, and publishes the release's namespace as a fact once everything is ready. */
#include "caisson.h"

CAISSON_FUNCTION(app_ensure);
CAISSON_FUNCTION(app_remove);

#define MANIFEST                                                                            \
	"{\"abi\":1,\"name\":\"harbour\",\"version\":\"1.0.0\","                                 \
	"\"description\":\"Installs a chart, written in C.\","                                  \
	"\"capabilities\":[\"app_ensure\",\"app_remove\"],"                                     \
	"\"reasons\":[{\"code\":\"still_moving\",\"sentence\":\"The harbour is being dredged.\"}]}"

/* give answers with a disposition, a reason and what the operator may know. */
static int32_t give(enum disposition d, text reason, text why)
{
	caisson_output(JOIN(TEXT("{\"reason\":\""), reason, TEXT("\",\"why\":\""), why, TEXT("\"}")));
	return d;
}

/* refused makes an answer of a response that is an error. A code that is not known is
 * treated as unavailable. */
static int32_t refused(text error)
{
	text code = json_string(JSON(error, "code"));
	if (equal(code, TEXT("invalid")))
		return give(TERMINAL, TEXT("invalid_config"), code);
	if (equal(code, TEXT("denied")))
		return give(USER_ACTION_REQUIRED, TEXT("not_granted"), code);
	if (equal(code, TEXT("forbidden")))
		return give(USER_ACTION_REQUIRED, TEXT("forbidden"), code);
	return give(RETRY, TEXT("unexpected"), code);
}

CAISSON_EXPORT(describe)
{
	caisson_output(TEXT(MANIFEST));
	return OK;
}

CAISSON_EXPORT(provision)
{
	text envelope = caisson_input(), config = JSON(envelope, "config");
	if (number(JSON(envelope, "abi")) != 1)
		return give(RETRY, TEXT("unexpected"), TEXT("the host speaks another ABI"));
	text repo = JSON(config, "repo"), chart = JSON(config, "chart"), version = JSON(config, "version");
	if (json_string(repo).length == 0 || json_string(chart).length == 0 || json_string(version).length == 0)
		return give(TERMINAL, TEXT("invalid_config"), TEXT("repo, chart and version are needed"));
	text values = JSON(config, "values");
	if (!values.at)
		values = TEXT("{}");

	text request = JOIN(TEXT("{\"repo\":"), repo, TEXT(",\"chart\":"), chart, TEXT(",\"version\":"), version,
		TEXT(",\"namespace\":\"harbour\",\"createNamespace\":true,\"values\":"), values, TEXT("}"));
	text response = caisson_call(app_ensure, request);
	text error = JSON(response, "error"), result = JSON(response, "result");
	if (error.at)
		return refused(error);
	enum disposition d = (enum disposition)number(JSON(result, "disposition"));
	text asked = decimal(number(JSON(JSON(envelope, "state"), "asked")) + 1);
	if (d == OK) {
		caisson_log_info(caisson_store(JOIN(TEXT("ready after asking "), asked, TEXT(" times"))));
		caisson_output(TEXT("{\"facts\":{\"harbour\":\"harbour\"},\"state\":null}"));
		return OK;
	}
	text reason = JSON(result, "reason");
	if (!reason.at)
		reason = TEXT("\"still_moving\"");
	caisson_output(JOIN(TEXT("{\"reason\":"), reason, TEXT(",\"state\":{\"asked\":"), asked, TEXT("}}")));
	return d;
}

CAISSON_EXPORT(deprovision)
{
	text response = caisson_call(app_remove, TEXT("{}"));
	text error = JSON(response, "error"), result = JSON(response, "result");
	if (error.at)
		return refused(error);
	enum disposition d = (enum disposition)number(JSON(result, "disposition"));
	if (d == OK)
		return OK;
	return give(d, json_string(JSON(result, "reason")), json_string(JSON(result, "phase")));
}
