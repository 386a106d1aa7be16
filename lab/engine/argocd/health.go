package argocd

import "homelab/lab"

// applicationHealth makes an app of apps as healthy as its Applications; Argo CD removed this check in 1.8. An Application that would replace Argo CD, or is outside of its
// namespace, is never synced, and blocks no wave.
// https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#argocd-app
func applicationHealth(namespace string) string {
	return `hs = {}
hs.status = "Progressing"
hs.message = ""
local meta = obj.metadata or {}
local marks = meta.annotations or {}
if marks["` + lab.AnnotationReplaces + `"] == "true" or meta.namespace ~= "` + namespace + `" then
  hs.status = "Healthy"
  return hs
end
if obj.status ~= nil then
  if obj.status.health ~= nil then
    hs.status = obj.status.health.status
    if obj.status.health.message ~= nil then
      hs.message = obj.status.health.message
    end
  end
end
return hs
`
}

// healthy is the health of Services and Ingresses. Nothing assigns them an address in a lab without a door: with Argo CD's own checks, Services of type LoadBalancer and Ingresses would
// never be healthy.
const healthy = `return {status = "Healthy", message = ""}
`

// claimHealth considers pending claims healthy, as kind's StorageClass binds one when a pod uses it, and that pod waits for it. With Argo CD's own check, an unused claim and
// one in an earlier sync wave than its pod would never be healthy.
const claimHealth = `hs = {status = "Healthy", message = ""}
if obj.status ~= nil and obj.status.phase == "Lost" then
  hs.status = "Degraded"
end
return hs
`
