package argocd

import "strings"

// setHealth makes an ApplicationSet as healthy as its Applications, so that a sync wave of an app of apps waits for what the wave before it brought
// (https://github.com/argoproj/argo-cd/issues/17639). Argo CD's own check calls one healthy that has written its Applications down.
//
// status.resources follows the Applications only with progressive syncs, and lacks those of the round that made them (updateResourcesStatus in argo-cd 3.2 comes
// first): an ApplicationSet without any is believed once that has lasted.
const setHealth = `local os = require("os")
local waiting = {status = "Progressing", message = "its applications are not generated yet"}
if obj.status == nil or obj.status.conditions == nil then
  return waiting
end
local since = nil
for _, c in ipairs(obj.status.conditions) do
  if c.type == "ErrorOccurred" and c.status == "True" then
    return {status = "Degraded", message = c.message}
  end
  if c.type == "ResourcesUpToDate" and c.status == "True" then
    since = c.lastTransitionTime or ""
  end
end
if since == nil then
  return waiting
end
local count = 0
for _, r in ipairs(obj.status.resources or {}) do
  count = count + 1
  local health = r.health ~= nil and r.health.status or ""
  if r.status ~= "Synced" or health ~= "Healthy" then
    waiting.message = "application " .. r.name .. " is not in sync and healthy yet"
    return waiting
  end
end
if count == 0 and since > os.date("!%Y-%m-%dT%H:%M:%SZ", os.time() - 10) then
  return waiting
end
return {status = "Healthy", message = ""}
`

// waveDelay is how many seconds Argo CD gives the ApplicationSet controller to act on a changed ApplicationSet, and the Applications to be compared, before it
// looks whether a wave is healthy: an ApplicationSet does not say which generation of it its status is of.
const waveDelay = "5"

// inWaves changes lab's values for estates that have sync waves. Others keep what is cheaper: each change of an Application's state has its ApplicationSet generated
// again.
func inWaves(params, cm map[string]any) {
	params["applicationsetcontroller.enable.progressive.syncs"] = "true"
	params["controller.sync.wave.delay.seconds"] = waveDelay
	cm["resource.customizations.health.argoproj.io_ApplicationSet"] = setHealth
}

// waitsForSets reports whether a sync waits for nothing but the health of ApplicationSets, which is that of Applications that are judged by themselves. One that is
// not waited for, or whose cluster is off, may keep it waiting for ever.
func (a application) waitsForSets() bool {
	op := a.Status.OperationState
	return op.Phase == "Running" && op.FinishedAt == "" && strings.HasPrefix(op.Message, "waiting for healthy state of argoproj.io/ApplicationSet/")
}

// awaitsSets is likewise for the health of an Application.
func (a application) awaitsSets() bool {
	bad := a.unhealthy()
	if a.Status.Health.Status != "Progressing" || len(bad) == 0 {
		return false
	}
	for _, r := range bad {
		if r.Group != applicationSets.Group || r.Kind != "ApplicationSet" {
			return false
		}
	}
	return true
}

// healthy reports whether an Application is healthy, but for what is judged by itself.
func (a application) healthy() bool { return a.Status.Health.Status == "Healthy" || a.awaitsSets() }
