package argocd

import (
	"maps"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"homelab/lab"
)

// Settings is what lab's own Argo CD values depend on.
type Settings struct {
	Lab           string    // name of the lab, for the label on every object
	Image         lab.Image // Argo CD
	Redis         lab.Image
	PasswordHash  string // of HashPassword; kept by the caller, since a new hash of the same password would be a new value
	WebhookSecret string // what the forge signs its webhooks with
	NodePort      int    // of Argo CD's server on the hub's node; 0 for DefaultNodePort
	URL           string // where a user reaches Argo CD, "http://127.0.0.1:8080"
}

// DefaultNodePort is where Argo CD's server listens on the hub's node.
const DefaultNodePort = 30080

// HashPassword returns the bcrypt hash that Argo CD keeps of its admin password. It differs at each call.
func HashPassword(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(h), err
}

// applicationHealth lets an app of apps be as healthy as the Applications in it; Argo CD dropped this check in 1.8.
// https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#argocd-app
const applicationHealth = `hs = {}
hs.status = "Progressing"
hs.message = ""
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

// Values are lab's values for the argo-cd chart, in the keys of the chart that the Argo project publishes, with over merged on top: maps key by key,
// everything else replaced, a null removing lab's own value so that the chart's default holds.
func Values(s Settings, over map[string]any) map[string]any {
	if s.NodePort == 0 {
		s.NodePort = DefaultNodePort
	}
	own := map[string]any{
		// Names do not depend on the release: everything else in lab says argocd-server and so on.
		"fullnameOverride": releaseName,
		"global": map[string]any{
			"image":                image(s.Image),
			"domain":               strings.TrimPrefix(strings.TrimPrefix(s.URL, "https://"), "http://"),
			"additionalLabels":     map[string]any{lab.LabelName: s.Lab, lab.LabelPart: "engine"},
			"revisionHistoryLimit": 1,
		},
		// An uninstall must never take the Applications along.
		"crds": map[string]any{"install": true, "keep": true},

		"configs": map[string]any{
			"params": params(),
			"cm":     configMap(s),
			"secret": secretValues(s),
		},
		"controller": map[string]any{"resources": requests("10m", "64Mi"), "readinessProbe": readiness()},
		"repoServer": component(),
		"applicationSet": map[string]any{
			"resources": requests("10m", "32Mi"),
		},
		"server": with(component(), map[string]any{
			"service": map[string]any{"type": "NodePort", "nodePortHttp": s.NodePort},
		}),
		"redis": map[string]any{
			"image":     image(s.Redis),
			"resources": requests("10m", "16Mi"),
		},
		// The password of Redis is made by lab before the install (see Install): the chart's own way is a Job that costs seconds and an image pull.
		"redisSecretInit": map[string]any{"enabled": false},
		"dex":             map[string]any{"enabled": false},
		"notifications":   map[string]any{"enabled": false},
	}
	return Merge(own, over)
}

// params becomes the ConfigMap argocd-cmd-params-cm.
func params() map[string]any {
	return map[string]any{
		// Plain HTTP on a loopback port: a self-signed certificate would only teach people to click warnings away.
		"server.insecure": "true",

		// Drift is healed at once, and 1 s after the last time when it comes again within 5 s. Argo CD's defaults wait 2 s, 6 s, 18 s, ... up to 5 min
		// when the same application drifts once more within 330 s, which is right against a controller that fights back and wrong for a user who
		// plays with drift.
		"controller.self.heal.timeout.seconds":          "0",
		"controller.self.heal.backoff.timeout.seconds":  "1",
		"controller.self.heal.backoff.factor":           "1",
		"controller.self.heal.backoff.cap.seconds":      "1",
		"controller.self.heal.backoff.cooldown.seconds": "5",
		// Between sync waves the health of the earlier one is waited for; two more seconds for slow controllers are not needed.
		"controller.sync.wave.delay.seconds": "0",
		// Which object is unhealthy, and why, is then in the Application itself, where lab reads it.
		"controller.resource.health.persist": "true",

		// A laptop has few cores: more at once is slower in all.
		"controller.status.processors":         "8",
		"controller.operation.processors":      "8",
		"controller.kubectl.parallelism.limit": "8",
		"reposerver.parallelism.limit":         "4",
	}
}

// configMap becomes the ConfigMap argocd-cm.
func configMap(s Settings) map[string]any {
	return map[string]any{
		"url":           s.URL,
		"admin.enabled": "true",
		// Webhooks bring a commit in a second; this is for one that got lost. Each expiry rewrites every Application's status, so it is not shorter.
		"timeout.reconciliation":        "120s",
		"timeout.reconciliation.jitter": "0s",

		"resource.customizations.health.argoproj.io_Application": applicationHealth,
		"resource.exclusions": exclusions,
	}
}

// exclusions keep lab's own documents, which may lie in a folder that an Application syncs, from being taken for manifests; the rest is what upstream's chart
// leaves out as well: it changes all the time, and nobody keeps it in Git.
const exclusions = `- apiGroups: [lab]
  kinds: ["*"]
- apiGroups: ["", discovery.k8s.io]
  kinds: [Endpoints, EndpointSlice]
- apiGroups: [coordination.k8s.io]
  kinds: [Lease]
- apiGroups: [authentication.k8s.io, authorization.k8s.io]
  kinds: [LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectReview, SelfSubjectRulesReview, SubjectAccessReview, TokenReview]
- apiGroups: [certificates.k8s.io]
  kinds: [CertificateSigningRequest]
- apiGroups: [cert-manager.io]
  kinds: [CertificateRequest]
- apiGroups: [cilium.io]
  kinds: [CiliumEndpoint, CiliumEndpointSlice, CiliumIdentity]
- apiGroups: [kyverno.io, reports.kyverno.io, wgpolicyk8s.io]
  kinds: [AdmissionReport, BackgroundScanReport, ClusterAdmissionReport, ClusterBackgroundScanReport, ClusterEphemeralReport, ClusterPolicyReport, EphemeralReport, PolicyReport, UpdateRequest]
`

// secretValues becomes the Secret argocd-secret.
func secretValues(s Settings) map[string]any {
	return map[string]any{
		"argocdServerAdminPassword": s.PasswordHash,
		// The chart's default is the time of rendering, which would make every render a change and end every session.
		"argocdServerAdminPasswordMtime": "2024-01-01T00:00:00Z",
		// Gitea signs its webhooks the way Gogs does, and Argo CD tells them by Gogs' header.
		"gogsSecret": s.WebhookSecret,
	}
}

// component is what the two servers have in common.
func component() map[string]any {
	return map[string]any{
		"resources":      requests("10m", "64Mi"),
		"readinessProbe": readiness(),
		// A busy laptop answers late; a restart makes it no faster.
		"livenessProbe": map[string]any{
			"initialDelaySeconds": 30, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6, "successThreshold": 1,
		},
	}
}

// readiness looks at once and often: the chart waits 10 s and looks every 10 s, which is most of an install's time.
func readiness() map[string]any {
	return map[string]any{
		"initialDelaySeconds": 1, "periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": 30, "successThreshold": 1,
	}
}

func requests(cpu, memory string) map[string]any {
	return map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}}
}

// image is empty for an image that the caller left to the chart.
func image(i lab.Image) map[string]any {
	repository, tag := splitRef(i.Ref)
	out := map[string]any{"imagePullPolicy": "IfNotPresent"}
	if repository != "" {
		out["repository"] = repository
	}
	if tag != "" {
		out["tag"] = tag
	}
	return out
}

// splitRef cuts repository:tag; a colon before the last slash is a registry's port.
func splitRef(ref string) (repository, tag string) {
	i := strings.LastIndex(ref, ":")
	if i < 0 || strings.Contains(ref[i:], "/") {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

func with(m, more map[string]any) map[string]any {
	maps.Copy(m, more)
	return m
}

// Merge returns under with over merged on top: maps key by key, everything else replaced, and a null removes the key. Neither argument is changed.
func Merge(under, over map[string]any) map[string]any {
	out := make(map[string]any, len(under))
	maps.Copy(out, under)
	for k, v := range over {
		if v == nil {
			delete(out, k)
			continue
		}
		above, isMap := v.(map[string]any)
		below, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			out[k] = Merge(below, above)
			continue
		}
		if isMap {
			out[k] = Merge(nil, above) // drops nulls that have nothing to remove
			continue
		}
		out[k] = v
	}
	return out
}
