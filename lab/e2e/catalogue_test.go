//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/enginetest"
	"homelab/lab/scenario/seal"
	"homelab/lab/ui"
)

// An entry of the catalogue, and the proof that it does its job.
type entry struct {
	name   string
	values string                                // of cluster dev alone
	smoke  func(t *testing.T, l *testLab) string // in cluster dev; returns what it did
	stays  map[lab.EngineType]string             // expression for what disabling it leaves by design, as "Kind namespace/name", besides namespaces; "" is of both engines
}

// catalogue is what the default estate has switched off. docs/catalogue.md says why something stays.
var catalogue = []entry{
	{name: "sealed-secrets", smoke: unsealed, stays: map[lab.EngineType]string{
		"":               `^Secret kube-system/sealed-secrets-key`,
		lab.EngineArgoCD: `^CustomResourceDefinition /sealedsecrets\.bitnami\.com$`,
		lab.EngineFlux:   `^CustomResourceDefinition /sealedsecrets\.bitnami\.com$`,
	}},
	{name: "gatekeeper", smoke: admitted, stays: map[lab.EngineType]string{
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.gatekeeper\.sh$`,
		lab.EngineFlux:   `^CustomResourceDefinition /.*\.gatekeeper\.sh$`,
	}},
	{name: "cert-manager", smoke: issued, stays: map[lab.EngineType]string{
		"":               `^(Lease|Secret) cert-manager/cert-manager-`,
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.cert-manager\.io$`,
	}},
	{name: "external-secrets", smoke: brought, stays: map[lab.EngineType]string{
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.external-secrets\.io$`,
	}},
	{name: "kyverno", smoke: mutated, stays: map[lab.EngineType]string{
		"":               `^(Lease|Secret) kyverno/kyverno`,
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.(kyverno|wgpolicyk8s)\.io$`,
	}},
	{name: "argo-rollouts", smoke: rolledOut, stays: map[lab.EngineType]string{
		"":               `^Lease argo-rollouts/argo-rollouts-controller-lock$`,
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.argoproj\.io$`,
	}},
	{name: "prometheus", smoke: fired, values: `rules:
  smoke:
    - {alert: Scraped, expr: 'up{job="prometheus"} == 1', labels: {severity: info}}
`},
	{name: "external-dns", smoke: named, stays: map[lab.EngineType]string{
		lab.EngineArgoCD: `^CustomResourceDefinition /dnsendpoints\.externaldns\.k8s\.io$`,
		lab.EngineFlux:   `^CustomResourceDefinition /dnsendpoints\.externaldns\.k8s\.io$`,
	}},
	{name: "traefik", smoke: served, stays: map[lab.EngineType]string{
		"": `^CustomResourceDefinition /.*\.gateway\.networking\.k8s\.io$`,
	}},
	{name: "karpenter", smoke: provisioned, stays: map[lab.EngineType]string{
		"":               `^Lease karpenter/karpenter-leader-election$`,
		lab.EngineArgoCD: `^CustomResourceDefinition /.*\.(karpenter\.sh|karpenter\.kwok\.sh|autoscaling\.x-k8s\.io|kwok\.x-k8s\.io)$`,
		lab.EngineFlux:   `^CustomResourceDefinition /.*\.(karpenter\.sh|autoscaling\.x-k8s\.io|kwok\.x-k8s\.io)$`,
	}},
	{name: "istio", smoke: meshed, stays: map[lab.EngineType]string{
		"": `^(ConfigMap [^/]+/istio-ca-(root-cert|crl)|Secret istio-system/istio-ca-secret|(ConfigMap|Lease) istio-system/istio-.*|GatewayClass /istio(-remote)?|CustomResourceDefinition /.*\.istio\.io)$`,
	}},
}

// enabled switches an addon on in cluster dev, checks that it does its job, and returns what `lab up` took, and what the check did.
func (l *testLab) enabled(t *testing.T, e entry) (took time.Duration, did string) {
	t.Helper()
	if e.values != "" {
		l.write("clusters/dev/addons/"+e.name+"/values.yaml", e.values)
	}
	l.must("addon", "enable", e.name, "--cluster", "dev")
	out := l.must("up")
	i := slices.IndexFunc(decode[ui.Status](l, "status").Applications, func(a lab.Application) bool {
		return strings.Contains(a.Name, e.name) && a.Sync == "Synced" && a.Health == "Healthy"
	})
	if i < 0 {
		t.Errorf("%s is not synced and healthy:\n%s", e.name, l.must("status").stdout)
	}
	return out.took, e.smoke(t, l)
}

// disabled switches addons off in cluster dev and checks that nothing is there that was not there before them.
func (l *testLab) disabled(t *testing.T, before []string, entries ...entry) {
	t.Helper()
	args, stays := []string{"addon", "disable"}, []string{`^(Namespace /|ConfigMap [^/]+/kube-root-ca\.crt$|ServiceAccount [^/]+/default$)`}
	for _, e := range entries {
		args = append(args, e.name)
		for engine, expression := range e.stays {
			if engine == "" || engine == l.engine() {
				stays = append(stays, expression)
			}
		}
	}
	l.must(append(args, "--cluster", "dev")...)
	for _, e := range entries {
		l.remove("clusters/dev/addons/" + e.name + "/values.yaml")
	}
	l.must("up", "--lose-data") // definitions go, and what is of their kinds with them
	byDesign := regexp.MustCompile(strings.Join(stays, "|"))
	eventually(t, 2*time.Minute, func() error {
		left := slices.DeleteFunc(l.inventory(t), func(o string) bool { return slices.Contains(before, o) || byDesign.MatchString(o) })
		if len(left) > 0 {
			return fmt.Errorf("left in dev:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// inventory lists the objects of cluster dev as "Kind namespace/name", without those that come and go by themselves.
func (l *testLab) inventory(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, o := range enginetest.Objects(t, map[string]*rest.Config{"dev": l.rest("dev")}) {
		if !slices.Contains([]string{"APIService", "PodMetrics", "NodeMetrics", "ControllerRevision", "EndpointSlice"}, o.GetKind()) {
			list = append(list, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), helmRevision.ReplaceAllString(o.GetName(), "")))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// helmRevision is the end of the name of a release's Secret.
var helmRevision = regexp.MustCompile(`\.v\d+$`)

// kubectl runs kubectl in dev's node, with manifests as its input.
func (l *testLab) kubectl(manifests string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 2*time.Minute) // also in clean-ups, when the test's context has ended
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "-i", l.node("dev"), "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifests), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// applied applies manifests to dev, as soon as it has their kinds and webhooks answer, and deletes them after the test.
func (l *testLab) appliedTo(t *testing.T, manifests string) {
	t.Helper()
	eventually(t, time.Minute, func() error { _, err := l.kubectl(manifests, "apply", "-f", "-"); return err })
	t.Cleanup(func() {
		if _, err := l.kubectl(manifests, "delete", "--ignore-not-found", "--wait=true", "--timeout=60s", "-f", "-"); err != nil {
			t.Log(err) // such as a kind that has gone with its addon
		}
	})
}

// hasOutput waits until kubectl prints something that is wanted.
func (l *testLab) hasOutput(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		got, err := l.kubectl("", args...)
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("kubectl %s: %q, want %q", strings.Join(args, " "), got, want)
		}
		return err
	})
}

// refusedBy checks that dev does not admit manifests, with a message, as soon as the policy counts.
func (l *testLab) refusedBy(t *testing.T, message, manifests string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		_, err := l.kubectl(manifests, "apply", "--dry-run=server", "-f", "-")
		switch {
		case err == nil:
			return errors.New("admitted")
		case !strings.Contains(err.Error(), message):
			return err
		}
		return nil
	})
}

// clusterIP returns the address of a Service in dev.
func (l *testLab) clusterIP(t *testing.T, namespace, name string) string {
	t.Helper()
	ip, err := l.kubectl("", "get", "service", name, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		t.Fatal(err)
	}
	return ip
}

const smokeNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: smoke}\n---\n"

// reader is a pod that shows what a Secret's key has as variable SMOKE in its environment, which podinfo serves.
const reader = `---
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: smoke, labels: {app: reader}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: podinfo
      image: ghcr.io/stefanprodan/podinfo:6.9.2
      env: [{name: SMOKE, valueFrom: {secretKeyRef: {name: smoke, key: word}}}]
`

// reads waits until the reader has a value.
func (l *testLab) reads(t *testing.T, value string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		data, err := l.kube("dev").CoreV1().Pods("smoke").ProxyGet("http", "reader", "9898", "env", nil).DoRaw(t.Context())
		if err == nil && !bytes.Contains(data, []byte(`"SMOKE=`+value+`"`)) {
			err = fmt.Errorf("the pod has %s", data)
		}
		return err
	})
}

// unsealed seals a value with the controller's certificate, as kubeseal does, and has a pod read it.
func unsealed(t *testing.T, l *testLab) string {
	var cert []byte
	eventually(t, time.Minute, func() (err error) {
		cert, err = l.kube("dev").CoreV1().Services("kube-system").ProxyGet("http", "sealed-secrets-controller", "http", "v1/cert.pem", nil).DoRaw(t.Context())
		return err
	})
	word, err := seal.Value(cert, "smoke", "smoke", "unsealed")
	if err != nil {
		t.Fatal(err)
	}
	l.appliedTo(t, smokeNamespace+`apiVersion: bitnami.com/v1alpha1
kind: SealedSecret
metadata: {name: smoke, namespace: smoke}
spec:
  encryptedData: {word: `+word+"}\n"+reader)
	l.reads(t, "unsealed")
	return "a pod read the Secret of a SealedSecret"
}

// admitted has Gatekeeper refuse an object that violates a constraint, and admit one that does not.
func admitted(t *testing.T, l *testLab) string {
	l.appliedTo(t, `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: smokeowner}
spec:
  crd: {spec: {names: {kind: SmokeOwner}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package smokeowner
        violation[{"msg": msg}] {
          not input.review.object.metadata.labels.owner
          msg := "an owner is required"
        }
`)
	l.appliedTo(t, smokeNamespace+`apiVersion: constraints.gatekeeper.sh/v1beta1
kind: SmokeOwner
metadata: {name: smoke}
spec: {match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [smoke]}}
`)
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: smoke, namespace: smoke"
	l.refusedBy(t, "an owner is required", object+"}\n")
	l.appliedTo(t, object+", labels: {owner: smoke}}\n")
	return "a ConfigMap without an owner was refused, one with an owner admitted"
}

// issued has cert-manager issue a certificate from a CA of its own.
func issued(t *testing.T, l *testLab) string {
	l.appliedTo(t, smokeNamespace+`apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: root, namespace: smoke}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: smoke}
spec: {isCA: true, commonName: smoke, secretName: ca, privateKey: {algorithm: ECDSA, size: 256}, issuerRef: {name: root}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca, namespace: smoke}
spec: {ca: {secretName: ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: smoke, namespace: smoke}
spec: {secretName: tls, dnsNames: [smoke.example.com], privateKey: {algorithm: ECDSA, size: 256}, issuerRef: {name: ca}}
`)
	eventually(t, time.Minute, func() error {
		s, err := l.kube("dev").CoreV1().Secrets("smoke").Get(t.Context(), "tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		block, _ := pem.Decode(s.Data["tls.crt"])
		if block == nil {
			return errors.New("no certificate yet")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(s.Data["ca.crt"])
		_, err = cert.Verify(x509.VerifyOptions{DNSName: "smoke.example.com", Roots: roots})
		return err
	})
	return "a certificate from a CA issuer verifies for its name"
}

// brought has External Secrets bring a value from a store, and its rotation.
func brought(t *testing.T, l *testLab) string {
	source := func(value string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: source, namespace: smoke}\nstringData: {word: " + value + "}\n"
	}
	l.appliedTo(t, smokeNamespace+source("first")+`---
apiVersion: v1
kind: ServiceAccount
metadata: {name: store, namespace: smoke}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: store, namespace: smoke}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}
  - {apiGroups: [authorization.k8s.io], resources: [selfsubjectrulesreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: store, namespace: smoke}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: store}
subjects: [{kind: ServiceAccount, name: store, namespace: smoke}]
---
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata: {name: store, namespace: smoke}
spec:
  provider:
    kubernetes:
      remoteNamespace: smoke
      server: {caProvider: {type: ConfigMap, name: kube-root-ca.crt, key: ca.crt}}
      auth: {serviceAccount: {name: store}}
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: smoke, namespace: smoke}
spec:
  refreshInterval: 1s
  secretStoreRef: {kind: SecretStore, name: store}
  target: {name: smoke}
  data: [{secretKey: word, remoteRef: {key: source, property: word}}]
`+reader)
	l.reads(t, "first")
	l.appliedTo(t, source("rotated"))
	l.hasOutput(t, base64.StdEncoding.EncodeToString([]byte("rotated")), "get", "secret", "smoke", "-n", "smoke", "-o", "jsonpath={.data.word}")
	return "a pod read a value from a store, whose rotation arrived"
}

// mutated has Kyverno refuse an object, and add a label to another.
func mutated(t *testing.T, l *testLab) string {
	l.appliedTo(t, smokeNamespace+`apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: smoke}
spec:
  validationActions: [Deny]
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: smoke}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations:
    - {expression: "has(object.metadata.labels) && 'owner' in object.metadata.labels", message: an owner is required}
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: smoke}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: smoke}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: 'Object{metadata: Object.metadata{labels: Object.metadata.labels{added: "kyverno"}}}'
`)
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: smoke, namespace: smoke"
	l.refusedBy(t, "an owner is required", object+"}\n")
	eventually(t, time.Minute, func() error { // until the other policy counts, too
		out, err := l.kubectl(object+", labels: {owner: smoke}}\n", "apply", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.added}")
		if err == nil && out != "kyverno" {
			err = fmt.Errorf("label added is %q", out)
		}
		return err
	})
	return "a ConfigMap without an owner was refused, one with an owner got a label"
}

// rolledOut has a Rollout go to a new version in steps, and back from one that does not start.
func rolledOut(t *testing.T, l *testLab) string {
	rollout := func(message, image string) string {
		return `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: smoke, namespace: smoke}
spec:
  replicas: 2
  progressDeadlineSeconds: 15
  progressDeadlineAbort: true
  selector: {matchLabels: {app: smoke}}
  strategy: {canary: {steps: [{setWeight: 50}, {pause: {duration: 20s}}]}}
  template:
    metadata: {labels: {app: smoke}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - {name: podinfo, image: "` + image + `", env: [{name: PODINFO_UI_MESSAGE, value: ` + message + `}]}
`
	}
	const image = "ghcr.io/stefanprodan/podinfo:6.9.2"
	state := func(jsonpath string) []string {
		return []string{"get", "rollouts.argoproj.io", "smoke", "-n", "smoke", "-o", "jsonpath=" + jsonpath}
	}
	l.appliedTo(t, smokeNamespace+rollout("first", image))
	l.hasOutput(t, "Healthy", state("{.status.phase}")...)
	first, err := l.kubectl("", state("{.status.stableRS}")...)
	if err != nil {
		t.Fatal(err)
	}
	l.appliedTo(t, rollout("second", image))
	l.hasOutput(t, "Paused 1", state("{.status.phase} {.status.updatedReplicas}")...)
	l.hasOutput(t, "Healthy 2", state("{.status.phase} {.status.updatedReplicas}")...)
	second, err := l.kubectl("", state("{.status.stableRS}")...)
	if err != nil || second == first {
		t.Errorf("stable are the pods of %s as before, %v", second, err)
	}
	l.appliedTo(t, rollout("third", "ghcr.io/stefanprodan/podinfo:none"))
	l.hasOutput(t, "Degraded true "+second, state("{.status.phase} {.status.abort} {.status.stableRS}")...)
	return "a Rollout paused at half and went on; one whose image is missing went back"
}

// fired has a rule of the cluster's values fire, and its alert arrive at the Alertmanager.
func fired(t *testing.T, l *testLab) string {
	eventually(t, time.Minute, func() error {
		data, err := l.kube("dev").CoreV1().Services("prometheus").ProxyGet("http", "alertmanager", "http", "api/v2/alerts", nil).DoRaw(t.Context())
		if err == nil && !bytes.Contains(data, []byte(`"alertname":"Scraped"`)) {
			err = fmt.Errorf("alerts %s", data)
		}
		return err
	})
	return "a rule on a scraped series fired, and the alert arrived"
}

// named has external-dns write the name of a Service into its DNS server, follow a change of it, and remove it.
func named(t *testing.T, l *testLab) string {
	service := func(name string) string {
		return `apiVersion: v1
kind: Service
metadata: {name: smoke, namespace: smoke, annotations: {external-dns.alpha.kubernetes.io/hostname: ` + name + `}}
spec: {selector: {app: smoke}, ports: [{port: 80}]}
`
	}
	server := l.clusterIP(t, "external-dns", "dns")
	answers := func(name, want string) {
		t.Helper()
		eventually(t, 2*time.Minute, func() error {
			out, err := exec.CommandContext(t.Context(), "docker", "exec", l.node("dev"), "busybox", "nslookup", "-type=a", name, server).CombinedOutput()
			if _, answer, _ := strings.Cut(string(out), "\n\n"); !strings.Contains(answer, want) {
				return fmt.Errorf("%s is not %q: %s, %v", name, want, out, err)
			}
			return nil
		})
	}
	const first, second, nothing = "first.smoke.test", "second.smoke.test", "NXDOMAIN"
	answers(first, nothing)
	l.appliedTo(t, smokeNamespace+service(first))
	answers(first, "Address: "+l.clusterIP(t, "smoke", "smoke")+"\n")
	l.appliedTo(t, service(second))
	answers(second, "Address: "+l.clusterIP(t, "smoke", "smoke")+"\n")
	answers(first, nothing)
	if _, err := l.kubectl("", "delete", "service", "smoke", "-n", "smoke"); err != nil {
		t.Fatal(err)
	}
	answers(second, nothing)
	return "the DNS server answered with a Service's address, under its new name alone when that changed, and not when it was deleted"
}

// served has Traefik answer for the host of an Ingress and that of an HTTPRoute, through its Service, and for neither when both are deleted.
func served(t *testing.T, l *testLab) string {
	const routes = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: smoke, namespace: smoke}
spec:
  ingressClassName: traefik
  rules: [{host: ingress.smoke.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: smoke, port: {number: 80}}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: smoke, namespace: smoke}
spec:
  parentRefs: [{name: traefik, namespace: traefik}]
  hostnames: [route.smoke.test]
  rules: [{backendRefs: [{name: smoke, port: 80}]}]
`
	gateway := l.clusterIP(t, "traefik", "traefik")
	answers := func(want string) {
		t.Helper()
		for _, host := range []string{"ingress.smoke.test", "route.smoke.test"} {
			eventually(t, time.Minute, func() error {
				out, err := exec.CommandContext(t.Context(), "docker", "exec", l.node("dev"), "curl", "-sS", "--max-time", "5", "-w", "%{http_code}", "-H", "Host: "+host, "http://"+gateway+"/api/info").CombinedOutput()
				if err == nil && !strings.Contains(string(out), want) {
					err = errors.New("another answer")
				}
				if err != nil {
					return fmt.Errorf("%s is not %q: %s, %w", host, want, out, err)
				}
				return nil
			})
		}
	}
	l.appliedTo(t, smokeNamespace+`apiVersion: v1
kind: Service
metadata: {name: smoke, namespace: smoke}
spec: {selector: {app: smoke}, ports: [{port: 80, targetPort: 9898}]}
---
apiVersion: v1
kind: Pod
metadata: {name: smoke, namespace: smoke, labels: {app: smoke}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: podinfo, image: "ghcr.io/stefanprodan/podinfo:6.9.2", env: [{name: PODINFO_UI_MESSAGE, value: behind the gateway}]}
`)
	const nothing = "404 page not found\n404"
	answers(nothing)
	l.appliedTo(t, routes)
	answers("behind the gateway")
	if _, err := l.kubectl(routes, "delete", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	answers(nothing)
	return "Traefik answered for the hosts of an Ingress and an HTTPRoute, and for neither when both were deleted"
}

// provisioned has Karpenter make a node for a pod that has to be on one of its own, KWOK have the pod run there, and Karpenter remove the node when the pod has gone.
func provisioned(t *testing.T, l *testLab) string {
	nodes := []string{"get", "nodes", "-l", "karpenter.sh/nodepool=smoke", "-o", "jsonpath={.items[*].metadata.name}"}
	l.hasOutput(t, "", nodes...)
	l.appliedTo(t, `apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: smoke}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: smoke}
spec:
  limits: {cpu: 10}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5s}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: smoke}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
      taints: [{key: smoke, effect: NoSchedule}]
`)
	l.appliedTo(t, smokeNamespace+`apiVersion: v1
kind: Pod
metadata: {name: smoke, namespace: smoke}
spec:
  nodeSelector: {karpenter.sh/nodepool: smoke}
  tolerations: [{key: smoke, operator: Exists}]
  containers:
    - {name: pause, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: "1"}}}
`)
	l.hasOutput(t, "Running", "get", "pod", "smoke", "-n", "smoke", "-o", "jsonpath={.status.phase}")
	node, err := l.kubectl("", "get", "pod", "smoke", "-n", "smoke", "-o", "jsonpath={.spec.nodeName}")
	if err != nil || node == "" {
		t.Fatalf("the pod runs on %q, %v", node, err)
	}
	l.hasOutput(t, node, nodes...)
	if _, err := l.kubectl("", "delete", "pod", "smoke", "-n", "smoke"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, func() error { // it is empty for 5s, and is looked at again after 15s
		left, err := l.kubectl("", nodes...)
		if err == nil && left != "" {
			err = fmt.Errorf("left are %s", left)
		}
		return err
	})
	return "Karpenter made a node for a pending pod, which ran there, and removed the node when the pod had gone"
}

// meshed routes proxyless gRPC requests to one version of a service, then to the other, by a VirtualService. One without a route is rejected.
func meshed(t *testing.T, l *testLab) string {
	const app = `apiVersion: v1
kind: Pod
metadata: {name: VERSION, namespace: smoke, labels: {app: smoke, version: VERSION}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: docker.io/lab/istio-app:v0.0.0-20260827124520-eed52ebb66ad
      args: [--grpc=7070, --version=VERSION]
      readinessProbe: {tcpSocket: {port: 7070}, periodSeconds: 1}
      env:
        - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - name: GRPC_XDS_BOOTSTRAP_CONFIG
          value: '{"xds_servers": [{"server_uri": "dns:///istiod.istio-system.svc:15010", "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
            "node": {"id": "sidecar~$(IP)~VERSION.smoke~cluster.local", "metadata": {"GENERATOR": "grpc"}}}'
---
`
	route := func(subset string) string {
		return `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: smoke, namespace: smoke}
spec:
  hosts: [smoke.smoke.svc.cluster.local]
  http: [{route: [{destination: {host: smoke.smoke.svc.cluster.local, subset: ` + subset + `}}]}]
`
	}
	l.loads(t, "istio-app")
	l.refusedBy(t, "http, tcp or tls must be provided", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: smoke, namespace: default}\nspec: {hosts: [smoke]}\n")
	l.appliedTo(t, smokeNamespace+strings.ReplaceAll(app, "VERSION", "v1")+strings.ReplaceAll(app, "VERSION", "v2")+`apiVersion: v1
kind: Service
metadata: {name: smoke, namespace: smoke}
spec: {selector: {app: smoke}, ports: [{name: grpc, port: 7070}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: smoke, namespace: smoke}
spec:
  host: smoke.smoke.svc.cluster.local
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
`)
	for _, version := range []string{"v1", "v2"} {
		l.appliedTo(t, route(version))
		eventually(t, time.Minute, func() error {
			out, err := l.kubectl("", "exec", "v1", "-n", "smoke", "--", "client", "--count=10", "xds:///smoke.smoke.svc.cluster.local:7070")
			if got := strings.Count(out, "ServiceVersion="+version); err == nil && got != 10 {
				err = fmt.Errorf("%d of 10 requests reached %s:\n%s", got, version, out)
			}
			return err
		})
	}
	return "istiod rejected a VirtualService without a route, and routed all requests of a gRPC client to one version of a service, then to the other"
}

// loads loads an image of lab's recipes into dev.
func (l *testLab) loads(t *testing.T, image string) {
	t.Helper()
	l.write("scenarios/loads/scenario.yaml", `apiVersion: lab/v1alpha1
kind: Scenario
metadata: {name: loads}
spec:
  title: an image is loaded
  teaches: nothing; it is a test
  requires: {clusters: [dev], images: {`+image+`: [dev]}}
  steps: [{title: a moment passes, wait: {for: 1s}}]
`)
	defer l.remove("scenarios/loads")
	l.must("scenario", "run", "loads")
}
