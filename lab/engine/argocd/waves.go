package argocd

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine"
)

// setHealth makes an ApplicationSet as healthy as its Applications, so that a sync wave of an app of apps waits for those of the previous wave
// (https://github.com/argoproj/argo-cd/issues/17639). Argo CD's own check considers an ApplicationSet healthy once it has created its Applications.
//
// status.resources follows the Applications only with progressive syncs, and lacks newly created ones (in argo-cd 3.2 updateResourcesStatus runs first): an
// ApplicationSet without any counts as healthy only after a while. Those that would replace Argo CD are not synced, and do not count.
func setHealth(replaces []string) string {
	var names strings.Builder
	for _, name := range slices.Sorted(slices.Values(replaces)) {
		names.WriteString("[" + strconv.Quote(name) + "] = true, ")
	}
	return "local ignored = {" + strings.TrimSuffix(names.String(), ", ") + "}\n" + setHealthOf
}

const setHealthOf = `local os = require("os")
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
  if not ignored[r.name] and (r.status ~= "Synced" or health ~= "Healthy") then
    waiting.message = "application " .. r.name .. " is not in sync and healthy yet"
    return waiting
  end
end
if count == 0 and since > os.date("!%Y-%m-%dT%H:%M:%SZ", os.time() - 10) then
  return waiting
end
return {status = "Healthy", message = ""}
`

// waveDelay is the time in seconds between applying a wave and checking its health: for the ApplicationSet controller to handle the change, and for the first
// comparison of the Applications. The status of an ApplicationSet lacks an observed generation.
const waveDelay = "5"

// inWaves adds the values for sync waves. Other estates save their cost: each status change of an Application regenerates its ApplicationSet.
func inWaves(params, cm map[string]any, replaces []string) {
	params["applicationsetcontroller.enable.progressive.syncs"] = "true"
	params["controller.sync.wave.delay.seconds"] = waveDelay
	cm["resource.customizations.health.argoproj.io_ApplicationSet"] = setHealth(replaces)
}

// waitingFor begins the message of a sync that waits for the health of Argo CD's own kinds, "KIND/NAME and 2 more resources".
const waitingFor = "waiting for healthy state of argoproj.io/"

// waitsForOthers reports whether a sync only waits for the health of Applications and ApplicationSets: these Applications are judged individually. One that is left
// out, or whose cluster is down, may block it forever.
func (a application) waitsForOthers() bool {
	op := a.Status.OperationState
	return op.Phase == "Running" && op.FinishedAt == "" && strings.HasPrefix(op.Message, waitingFor+"Application")
}

// blocked reports whether the sync of an Application waits for a left-out Application, or an ApplicationSet with one, and it lacks only Applications and ApplicationSets
// of later waves.
func (v view) blocked(a application, want engine.Want) bool {
	if a.Status.Sync.Status != "OutOfSync" || !a.waitsForOthers() || !a.healthy(want) {
		return false
	}
	others := slices.ContainsFunc(a.Status.Resources, func(r resource) bool {
		return r.Status == "OutOfSync" && (r.Group != applications.Group || r.Kind != "Application" && r.Kind != "ApplicationSet")
	})
	kind, rest, _ := strings.Cut(strings.TrimPrefix(a.Status.OperationState.Message, waitingFor), "/")
	name, _, _ := strings.Cut(rest, " ")
	if kind == "ApplicationSet" && leavesOutSet(want, name) {
		return !others
	}
	return !others && slices.ContainsFunc(want.LeftOut, func(out string) bool {
		if kind == "Application" {
			return out == name
		}
		return slices.ContainsFunc(v.apps[out].Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == kind && o.Name == name })
	})
}

// faultySets returns the unhealthy ApplicationSets in an Application, as in engine.Want.LeftOut.
func (a application) faultySets() []string {
	var list []string
	for _, r := range a.unhealthy() {
		if r.Kind == "ApplicationSet" {
			list = append(list, lab.SetName(r.Name))
		}
	}
	return list
}

func leavesOutSet(want engine.Want, name string) bool {
	return slices.Contains(want.LeftOut, lab.SetName(name))
}

// healthy reports whether an Application is healthy, apart from the Applications in it, those of its ApplicationSets, and left-out ApplicationSets.
func (a application) healthy(want engine.Want) bool {
	switch a.Status.Health.Status {
	case "Healthy":
		return true
	case "Progressing", "Degraded", "Suspended":
	default:
		return false
	}
	bad := a.unhealthy()
	return len(bad) > 0 && !slices.ContainsFunc(bad, func(r resource) bool {
		return r.Group != applications.Group || r.Kind != "Application" && (r.Kind != "ApplicationSet" || r.Health.Status != "Progressing" && !leavesOutSet(want, r.Name))
	})
}
