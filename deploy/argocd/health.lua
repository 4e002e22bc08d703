-- The health of Stacks and Modules for Argo CD. README.md in the folder above says how to install it.
local health = {status = "Progressing", message = "The operator has not looked at it yet."}

local status = obj.status
if status == nil or status.conditions == nil then
  return health
end

local found = {}
for _, condition in ipairs(status.conditions) do
  found[condition.type] = condition
end
local ready = found["Ready"]
if ready == nil then
  return health
end

-- What is said of an older spec may be the opposite of what is going to happen.
local seen = ready.observedGeneration or status.observedGeneration
if obj.metadata.generation ~= nil and seen ~= obj.metadata.generation then
  health.message = "The spec has changed, and the operator has not looked at it yet."
  return health
end

health.message = ready.message
if obj.metadata.deletionTimestamp ~= nil then
  if ready.status == "True" then
    health.message = "It is to be deleted, and the operator has not begun yet."
  end
  return health
end
if ready.reason == "Suspended" then
  health.status = "Suspended"
elseif ready.status == "True" then
  health.status = "Healthy"
elseif found["Stalled"] ~= nil and found["Stalled"].status == "True" then
  health.status = "Degraded"
end
return health
