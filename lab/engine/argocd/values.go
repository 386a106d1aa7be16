package argocd

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"homelab/lab"
	"homelab/lab/engine/helm"
)

// Settings are the variables of lab's Argo CD values.
type Settings struct {
	Lab           string    // name of the lab, for the label of every object
	Namespace     string    // of Argo CD; "" means Namespace
	Image         lab.Image // Argo CD
	Redis         lab.Image
	PasswordHash  string   // bcrypt; kept by the caller, as each new hash changes the values
	WebhookSecret string   // signs the forge's webhooks
	NodePort      int      // of Argo CD's server on the hub; 0 means DefaultNodePort
	URL           string   // user-facing URL of Argo CD, "http://127.0.0.1:8080"
	Waves         bool     // the estate has ApplicationSets in sync waves
	LinksOut      bool     // a repository has a symbolic link that leaves it
	Addresses     bool     // Services of type LoadBalancer and Ingresses get an address
	Replaces      []string // Applications that would replace Argo CD
}

// DefaultNodePort is the default node port of Argo CD's server.
const DefaultNodePort = 30080

// Values returns lab's values for the argo-cd chart of the Argo project, with over merged on top: maps by key, other values replaced; a null removes lab's
// value, so that the chart's default applies.
func Values(s Settings, over map[string]any) map[string]any {
	if s.NodePort == 0 {
		s.NodePort = DefaultNodePort
	}
	params, cm := params(s.LinksOut), configMap(s)
	if s.Addresses { // Argo CD's own checks wait for one
		delete(cm, serviceHealth)
		delete(cm, ingressHealth)
	}
	if s.Waves {
		inWaves(params, cm, s.Replaces)
	}
	own := map[string]any{
		// Names must not depend on the release: lab refers to argocd-server and so on.
		"fullnameOverride": releaseName,
		"global": map[string]any{
			"image":                image(s.Image),
			"domain":               strings.TrimPrefix(strings.TrimPrefix(s.URL, "https://"), "http://"),
			"additionalLabels":     map[string]any{lab.LabelName: s.Lab, lab.LabelPart: "engine"},
			"revisionHistoryLimit": 1,
		},
		// An uninstall must never delete the Applications.
		"crds": map[string]any{"install": true, "keep": true},

		"configs": map[string]any{
			"params": params,
			"cm":     cm,
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
		// Redis' password is created before the install (see Install): the chart uses a Job, which costs seconds and an image pull.
		"redisSecretInit": map[string]any{"enabled": false},
		"dex":             map[string]any{"enabled": false},
		"notifications":   map[string]any{"enabled": false},
	}
	return helm.Merge(own, over)
}

// params returns the data of ConfigMap argocd-cmd-params-cm.
func params(linksOut bool) map[string]any {
	return map[string]any{
		// Plain HTTP on a loopback port: a self-signed certificate would only teach users to click through warnings.
		"server.insecure": "true",

		// Drift is healed immediately, or after 1 s if it recurs within 5 s. Argo CD's defaults back off by 2 s, 6 s, 18 s, ... up to 5 min if the same Application
		// drifts again within 330 s, which suits controllers that fight back, not users who experiment with drift.
		"controller.self.heal.timeout.seconds":          "0",
		"controller.self.heal.backoff.timeout.seconds":  "1",
		"controller.self.heal.backoff.factor":           "1",
		"controller.self.heal.backoff.cap.seconds":      "1",
		"controller.self.heal.backoff.cooldown.seconds": "5",
		// The next sync wave starts once the previous one is healthy; no two extra seconds for slow controllers.
		"controller.sync.wave.delay.seconds": "0",
		// Submodules of any repository, which upstream's host may have: Argo CD would read nothing of a repository that has one.
		"reposerver.enable.git.submodule":               "false",
		"applicationsetcontroller.enable.git.submodule": "false",
		// Likewise links that leave the repository; refused where the estate has none, as upstream does.
		"reposerver.allow.oob.symlinks": strconv.FormatBool(linksOut),
		// Keeps unhealthy objects and the reasons in the Application itself, where lab reads them.
		"controller.resource.health.persist": "true",

		// Laptops have few cores: more concurrency is slower overall.
		"controller.status.processors":         "8",
		"controller.operation.processors":      "8",
		"controller.kubectl.parallelism.limit": "8",
		"reposerver.parallelism.limit":         "4",
	}
}

// configMap returns the data of ConfigMap argocd-cm.
func configMap(s Settings) map[string]any {
	return map[string]any{
		"url":           s.URL,
		"admin.enabled": "true",
		// An attached cluster may have an Argo CD of its owner's, with applications of the same names: without this, each would prune the other's objects.
		"installationID": installation(s.Lab),
		// Webhooks deliver a commit within a second; this catches lost ones. Each expiry rewrites every Application's status, so it is not shorter.
		"timeout.reconciliation":        "120s",
		"timeout.reconciliation.jitter": "0s",
		// As in the Argo CD of repositories whose kustomizations inflate charts; no effect on others.
		"kustomize.buildOptions": "--enable-helm",

		"resource.customizations.health.argoproj.io_Application": applicationHealth(cmp.Or(s.Namespace, Namespace)),
		serviceHealth: healthy,
		ingressHealth: healthy,
		"resource.customizations.health.PersistentVolumeClaim": claimHealth,
		"resource.exclusions": exclusions,
	}
}

const (
	serviceHealth = "resource.customizations.health.Service"
	ingressHealth = "resource.customizations.health.networking.k8s.io_Ingress"
)

// exclusions keep lab's own documents, which may be in a synced folder, from being deployed. The others are excluded by upstream's chart as well: volatile, and
// never in Git.
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

// secretValues returns the data of Secret argocd-secret.
func secretValues(s Settings) map[string]any {
	return map[string]any{
		"argocdServerAdminPassword": s.PasswordHash,
		// The chart's default is the time of rendering, which would change with every render and end all sessions.
		"argocdServerAdminPasswordMtime": "2024-01-01T00:00:00Z",
		// Gitea signs its webhooks like Gogs, and Argo CD identifies them by Gogs' header.
		"gogsSecret": s.WebhookSecret,
	}
}

// component returns the values shared by the two servers.
func component() map[string]any {
	return map[string]any{
		"resources":      requests("10m", "64Mi"),
		"readinessProbe": readiness(),
		// A busy laptop responds late; a restart does not help.
		"livenessProbe": map[string]any{
			"initialDelaySeconds": 30, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6, "successThreshold": 1,
		},
	}
}

// readiness returns a probe without delay at short intervals: the chart's 10 s for both are most of an install's time.
func readiness() map[string]any {
	return map[string]any{
		"initialDelaySeconds": 1, "periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": 30, "successThreshold": 1,
	}
}

func requests(cpu, memory string) map[string]any {
	return map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}}
}

// image returns nothing for an image left to the chart.
func image(i lab.Image) map[string]any {
	repository, tag := helm.SplitRef(i.Ref)
	out := map[string]any{"imagePullPolicy": "IfNotPresent"}
	if repository != "" {
		out["repository"] = repository
	}
	if tag != "" {
		out["tag"] = tag
	}
	return out
}

func with(m, more map[string]any) map[string]any {
	maps.Copy(m, more)
	return m
}
