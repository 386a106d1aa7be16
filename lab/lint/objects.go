package lint

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/strict"
)

// objects applies the rules about single objects.
func (l *linter) objects(a application) {
	for _, o := range a.objects {
		if !needs.Applied(o.Document) { // a test of a chart
			continue
		}
		say := func(rule string, n *yaml.Node, severity finding.Severity, message string) {
			at, message := l.place(a, o, n, message)
			l.add(finding.Finding{
				Rule: rule, Severity: severity, Position: at, Message: message,
				Subject: finding.Subject{Cluster: o.Cluster, Application: a.Name, Object: o.ID()},
			})
		}
		leftovers(o, say)
		images(o, say)
		l.lifecycle(o, say)
		recreated(o, say)
		l.plainSecret(o, say)
		long(a, o, say)
		syncOptions(o, say)
		l.misfits(a, o, say)
	}
}

// place returns the position of a node of an object, or that of its application if the file is of a chart repository, with the file in the message: whoever
// reads it can change only how the chart is used.
func (l *linter) place(a application, o desired.Object, n *yaml.Node, message string) (lab.Position, string) {
	at := lab.Position{File: o.File, Line: o.Line}
	if n != nil && n.Line > 0 {
		at.Line = n.Line
	}
	switch {
	case o.File == "":
		return a.At, message
	case !l.exists(o.File):
		return a.At, message + " (" + at.String() + ")"
	}
	return at, message
}

// sayer adds a finding about a node of an object.
type sayer func(rule string, n *yaml.Node, severity finding.Severity, message string)

// leftovers finds what a template or a substitution has left in fields that cannot contain templates themselves.
func leftovers(o desired.Object, say sayer) {
	var noValue func(n *yaml.Node)
	noValue = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "<no value>") && !strings.Contains(n.Value, "\n") {
			say(finding.LeftoverTemplate, n, "", fmt.Sprintf("%s has %q", o.ID(), n.Value))
		}
		for _, c := range n.Content {
			noValue(c)
		}
	}
	noValue(o.Node)
	literal := []*yaml.Node{strict.Get(o.Node, "metadata", "name"), strict.Get(o.Node, "metadata", "namespace")}
	if labels := strict.Get(o.Node, "metadata", "labels"); labels != nil {
		for i := 1; i < len(labels.Content); i += 2 {
			literal = append(literal, labels.Content[i])
		}
	}
	if builtin(o) {
		for _, c := range needs.Containers(o.Document) {
			literal = append(literal, strict.Get(c, "image"))
		}
	}
	for _, n := range literal {
		if n != nil && (strings.Contains(n.Value, "{{") || strings.Contains(n.Value, "${")) {
			say(finding.LeftoverTemplate, n, "", fmt.Sprintf("%s has %q", o.ID(), n.Value))
		}
	}
}

// builtin reports whether an object is of one of Kubernetes' own kinds.
func builtin(o desired.Object) bool {
	served, _ := needs.Serves(kindOf(o))
	return served
}

func kindOf(o desired.Object) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
}

// images finds images whose content changes without a commit.
func images(o desired.Object, say sayer) {
	if !builtin(o) {
		return
	}
	for _, c := range needs.Containers(o.Document) {
		n := strict.Get(c, "image")
		if n == nil || n.Value == "" || n.Value == "auto" || strings.ContainsAny(n.Value, "@{$<") || strings.HasPrefix(n.Value, "lab-open-") || strings.Contains(n.Value, "://") { // Istio replaces auto
			continue
		}
		if _, tag, _ := strings.Cut(n.Value[strings.LastIndex(n.Value, "/")+1:], ":"); tag == "" || tag == "latest" {
			say(finding.FloatingImage, n, "", fmt.Sprintf("%s runs %s, which is another image tomorrow", o.ID(), n.Value))
		}
	}
}

// lifecycle finds APIs that Kubernetes no longer serves, or will not serve for long, by its own declarations.
func (l *linter) lifecycle(o desired.Object, say sayer) {
	c, known := l.Estate.Cluster(o.Cluster)
	if !known || c.Provider == lab.ProviderExisting {
		return
	}
	object, err := scheme.Scheme.New(kindOf(o))
	if err != nil {
		return
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(c.KubernetesVersion(), "v"), "%d.%d", &major, &minor); err != nil {
		return
	}
	reached := func(of func() (int, int)) (string, bool) {
		x, y := of()
		return fmt.Sprintf("%d.%d", x, y), x < major || x == major && y <= minor
	}
	instead := ""
	if r, ok := object.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok && r.APILifecycleReplacement().Version != "" {
		instead = ": use " + r.APILifecycleReplacement().GroupVersion().String()
	}
	at := strict.Get(o.Node, "apiVersion")
	if r, ok := object.(interface{ APILifecycleRemoved() (int, int) }); ok {
		if version, gone := reached(r.APILifecycleRemoved); gone {
			say(finding.DeprecatedAPI, at, finding.Error, fmt.Sprintf("%s is of %s, which Kubernetes has not served since %s%s", o.ID(), at.Value, version, instead))
			return
		}
	}
	if d, ok := object.(interface{ APILifecycleDeprecated() (int, int) }); ok {
		if version, old := reached(d.APILifecycleDeprecated); old {
			say(finding.DeprecatedAPI, at, finding.Warning, fmt.Sprintf("%s is of %s, deprecated since Kubernetes %s%s", o.ID(), at.Value, version, instead))
		}
	}
}

// longest are the lengths of names by kind: what a host name or the value of a label has room for, less what controllers append.
var longest = map[string]int{"Service": 63, "Namespace": 63, "Job": 63, "CronJob": 52, "StatefulSet": 52}

// long finds names and labels that are too long.
func long(a application, o desired.Object, say sayer) {
	name := strict.Get(o.Node, "metadata", "name")
	if limit := longest[strict.Text(o.Node, "kind")]; name != nil && limit > 0 && builtin(o) && len(name.Value) > limit {
		say(finding.NameTooLong, name, "", fmt.Sprintf("the name of %s has %d characters, %d are allowed: application %s is from %s", o.ID(), len(name.Value), limit, a.Name, a.At))
	}
	labels := strict.Get(o.Node, "metadata", "labels")
	for i := 0; labels != nil && i+1 < len(labels.Content); i += 2 {
		if n := labels.Content[i+1]; len(n.Value) > 63 {
			say(finding.NameTooLong, n, "", fmt.Sprintf("label %s of %s has %d characters, 63 are allowed: application %s is from %s", labels.Content[i].Value, o.ID(), len(n.Value), a.Name, a.At))
		}
	}
}

// holders are kinds whose deletion loses what is in them.
var holders = []string{"Namespace", "PersistentVolumeClaim", "PersistentVolume", "StatefulSet"}

// recreated finds hooks that an engine deletes and recreates, with their contents: by default, before each run.
func recreated(o desired.Object, say sayer) {
	if !slices.Contains(holders, strict.Text(o.Node, "kind")) || !needs.Applied(o.Document) || o.Hook == "" {
		return
	}
	annotations := strict.Get(o.Node, "metadata", "annotations")
	policy := strict.Text(annotations, "helm.sh/hook-delete-policy") + strict.Text(annotations, argo.HookDeletePolicy)
	if policy != "" && !strings.Contains(policy, "before-hook-creation") && !strings.Contains(policy, "BeforeHookCreation") && !strings.Contains(strings.ToLower(policy), "succeeded") {
		return
	}
	if o.Part != "" && !strings.Contains(o.Hook, "upgrade") && !strings.Contains(strings.ToLower(policy), "succeeded") { // helm-controller runs it once
		return
	}
	say(finding.HookRecreates, annotations, "", fmt.Sprintf("%s is a hook (%s): it is deleted and created again, with all that it holds", o.ID(), o.Hook))
}

// public are keys of Secrets whose values are not secret.
var public = []string{"ca.crt", "tls.crt"}

// secret are the keys of the engine's own Secrets whose values are secrets.
var secret = []string{"password", "sshPrivateKey", "bearerToken", "githubAppPrivateKey", "tlsClientCertKey", "gcpServiceAccountKey"}

// placeholder matches values that are filled in elsewhere.
var placeholder = regexp.MustCompile(`^ENC\[|lab-open-|\$\{|\{\{|^<.*>$|^ref\+|^vault:`)

// plainSecret finds Secrets whose values are in a file as they are, or in base64.
func (l *linter) plainSecret(o desired.Object, say sayer) {
	if kindOf(o) != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) || o.File == "" || strict.Get(o.Node, "sops") != nil {
		return
	}
	var text string
	for _, field := range []string{"stringData", "data"} {
		data := strict.Get(o.Node, field)
		for i := 0; data != nil && i+1 < len(data.Content); i += 2 {
			key, value := data.Content[i].Value, data.Content[i+1]
			plain := value.Value
			if decoded, err := base64.StdEncoding.DecodeString(value.Value); field == "data" && err == nil {
				plain = string(decoded)
			}
			ofEngine := strict.Text(o.Node, "metadata", "labels", argo.SecretType) != "" && !slices.Contains(secret, key)
			if strings.TrimSpace(plain) == "" || placeholder.MatchString(plain) || slices.Contains(public, key) || ofEngine {
				continue
			}
			if text == "" {
				var err error
				if text, err = l.text(o.File); err != nil {
					return
				}
			}
			line, _, _ := strings.Cut(value.Value, "\n")
			if strings.Contains(text, line) {
				say(finding.PlainSecret, data.Content[i], "", fmt.Sprintf("%s has %s in plain text in Git", o.ID(), key))
				return
			}
		}
	}
}

// ofApplications are sync options that only an Application has.
var ofApplications = []string{"CreateNamespace", "ApplyOutOfSyncOnly", "RespectIgnoreDifferences", "FailOnSharedResource", "PrunePropagationPolicy"}

// syncOptions finds options of Applications on objects, where they have no effect.
func syncOptions(o desired.Object, say sayer) {
	n := strict.Get(o.Node, "metadata", "annotations", argo.SyncOptions)
	if n == nil {
		return
	}
	for option := range strings.SplitSeq(n.Value, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(option), "="); slices.Contains(ofApplications, name) {
			say(finding.SyncOptionLevel, n, "", fmt.Sprintf("%s has the sync option %s, which counts in an Application only", o.ID(), name))
		}
	}
}
