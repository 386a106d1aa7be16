package fluxset

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Suspended is why lab does not wait for a Kustomization that the estate suspends.
const Suspended = "suspended: spec.suspend"

// conditions records what an application waits for.
func (x *expander) conditions(app *Application, n *yaml.Node) {
	app.patched, app.decrypt = len(strict.List(n, "spec", "patches")) > 0 || hasFormerPatches(strict.Get(n, "spec")), strict.Get(n, "spec", "decryption") != nil
	checks := strict.Get(n, "spec", "healthChecks")
	app.waitsForAll = strict.Text(n, "spec", "wait") == "true"
	if app.Waits = app.waitsForAll || len(strict.List(checks)) > 0; !app.waitsForAll {
		for _, check := range strict.List(checks) {
			app.checks = append(app.checks, objectOf(check))
		}
	}
	for _, on := range strict.List(n, "spec", "dependsOn") {
		key := cmp.Or(strict.Text(on, "namespace"), app.Namespace) + "/" + strict.Text(on, "name")
		if app.DependsOn = append(app.DependsOn, key); strict.Text(on, "readyExpr") != "" {
			x.Notes = append(x.Notes, lab.Problem{
				Code: finding.UnknownOutput, Position: lab.Position{File: app.At.File, Line: on.Line},
				Message: fmt.Sprintf("Kustomization %s waits for an expression about %s, which is not known offline", app.Name, key),
			})
		}
	}
	if strict.Text(n, "spec", "suspend") == "true" {
		app.stall(Suspended)
	}
	if account := strict.Text(n, "spec", "decryption", "serviceAccountName"); account != "" {
		app.stall("decrypts with the identity of a cloud, of ServiceAccount " + account + ": spec.decryption.serviceAccountName")
	}
	if ref := strict.Get(n, "spec", "decryption", "secretRef"); ref != nil {
		app.Reads = append(app.Reads, x.lookUp(Read{Kind: "Secret", Namespace: app.Namespace, Name: strict.Text(ref, "name"), At: lab.Position{File: app.At.File, Line: ref.Line}}))
	}
}

const (
	accountKind = "ServiceAccount"
	bindingOf   = "binding of "
)

// account records the ServiceAccount that Flux impersonates for a Kustomization or a HelmRelease, in the cluster of its objects.
func (x *expander) account(app *Application, doc render.Document) {
	spec, namespace := strict.Get(doc.Node, "spec"), strict.Text(doc.Node, "metadata", "namespace")
	name, remote := strict.Text(spec, "serviceAccountName"), ""
	if secret := strict.Text(spec, "kubeConfig", "secretRef", "name"); secret != "" {
		remote = x.Scope.ClusterOf(namespace, secret)
	}
	if name == "" || strict.Get(spec, "kubeConfig") != nil && remote == "" || namespace == flux.Namespace && strings.HasSuffix(name, "-controller") {
		return // exists: Flux's own
	}
	r := Read{Kind: accountKind, Namespace: namespace, Name: name, Cluster: remote, At: lab.Position{File: doc.File, Line: strict.Get(spec, "serviceAccountName").Line}}
	if !isKustomization(doc.Node) {
		r.at = installed
	}
	if r = x.lookUp(r); name == "default" { // exists in every namespace, without a role
		r.Known = true
	}
	app.Reads = append(app.Reads, r)
}

// bind sets Bound, which depends on all applications.
func (x *expander) bind() {
	for a := range x.all() {
		for i := range a.Reads {
			r := &a.Reads[i]
			r.Bound = r.Kind == accountKind && slices.ContainsFunc(r.subjects(), func(s Read) bool { return x.data[bindingOf+s.key()] != nil })
		}
	}
}

// late finds what applications read in order to be applied, and only they or what requires them apply: upstream it exists already.
func (x *expander) late(s steps) {
	makers := map[string][]string{}
	for of, a := range s.apps {
		for _, o := range a.Objects {
			if ignored(o.Node) {
				continue
			}
			data := dataKey(a.Remote, strict.Text(o.Node, "kind"), key(o.Node))
			makers[data] = append(makers[data], of)
		}
	}
	for of, a := range s.apps {
		for i := range a.Reads {
			r := &a.Reads[i]
			by := makers[r.key()]
			if !r.Known || r.at != applied || len(by) == 0 || r.Cluster == "" && x.Vars(r.Namespace, r.Name) != nil || slices.ContainsFunc(by, func(maker string) bool {
				return !slices.Contains(s.closure(step{maker, applied}), step{of, applied})
			}) {
				continue
			}
			r.Known, r.Bound, r.Late = false, false, x.data[r.key()]
			if x.Assumed == nil && a.mounted && !r.Optional { // otherwise it is provided
				a.stall(fmt.Sprintf("reads %s %s/%s, which is applied only after it", r.Kind, r.Namespace, r.Name))
			}
		}
	}
}

// subjects returns a ServiceAccount, and the user and the group of its namespace that it is for RBAC.
func (r Read) subjects() []Read {
	return []Read{
		r,
		{Kind: rbacv1.UserKind, Name: "system:serviceaccount:" + r.Namespace + ":" + r.Name, Cluster: r.Cluster},
		{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + r.Namespace, Cluster: r.Cluster},
	}
}

// lookUp returns a Read with Known set. Kubernetes itself puts its CA into every namespace.
func (x *expander) lookUp(r Read) Read {
	r.Known = x.dataOf(r) != nil || r.Kind == "ConfigMap" && r.Name == "kube-root-ca.crt"
	return r
}

// dataOf returns the data of a Read, or nil if unknown.
func (x *expander) dataOf(r Read) map[string]string {
	if data := x.Vars(r.Namespace, r.Name); data != nil && r.Cluster == "" {
		return data
	}
	return x.data[r.key()]
}

// keyAt returns the position of a key of a Read: in the object, or of the reference if nothing in the files has it.
func (x *expander) keyAt(r Read, name string) lab.Position {
	o, known := x.holders[r.key()]
	if x.Vars(r.Namespace, r.Name) != nil && r.Cluster == "" || !known {
		return r.At
	}
	at := lab.Position{File: o.File, Line: o.Line}
	for _, field := range []string{"data", "stringData"} {
		if n := strict.Get(o.Node, field, name); n != nil {
			at.Line = n.Line
		}
	}
	return at
}

// variable matches the names of variables: https://github.com/fluxcd/pkg/blob/main/kustomize/kustomize_varsub.go
var variable = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// variables returns the variables of a Kustomization, or nil without substitution. Flux substitutes nothing without any variable, not even defaults.
func (x *expander) variables(app *Application, doc render.Document) map[string]string {
	post := strict.Get(doc.Node, "spec", "postBuild")
	if post == nil {
		return nil
	}
	vars := map[string]string{}
	app.VariablesAt = map[string]lab.Position{}
	always := strict.Text(post, "substituteStrategy") == string(kustomizev1.SubstituteStrategyAlways)
	for _, ref := range strict.List(post, "substituteFrom") {
		r := x.lookUp(Read{
			Kind: strict.Text(ref, "kind"), Namespace: app.Namespace, Name: strict.Text(ref, "name"), Optional: strict.Text(ref, "optional") == "true",
			At: lab.Position{File: doc.File, Line: ref.Line}, Variables: true,
		})
		always = always || !r.Known && (x.Assumed != nil || !r.Optional) // it may have some
		if x.Assumed != nil && !r.Known {
			maps.Copy(vars, x.Assumed(r))
		}
		for name, value := range x.dataOf(r) {
			vars[name], app.VariablesAt[name] = value, x.keyAt(r, name)
		}
		app.Reads = append(app.Reads, r)
	}
	for name, value := range strict.Pairs(post, "substitute") {
		vars[name.Value], app.VariablesAt[name.Value] = value.Value, lab.Position{File: doc.File, Line: name.Line}
	}
	if len(vars) == 0 && !always {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if vars[name] = strings.ReplaceAll(vars[name], "\n", ""); app.mounted && !variable.MatchString(name) {
			app.stall(fmt.Sprintf("%q is not a valid variable name: use letters, digits and underscores", name))
		}
	}
	return vars
}

// readValues records the ConfigMaps and Secrets that a release reads.
func (x *expander) readValues(app *Application, o render.Document) {
	for _, ref := range strict.List(o.Node, "spec", "valuesFrom") {
		at := lab.Position{File: o.File, Line: cmp.Or(ref.Line, o.Line)}
		r := x.lookUp(Read{
			Kind: strict.Text(ref, "kind"), Namespace: strict.Text(o.Node, "metadata", "namespace"), Name: strict.Text(ref, "name"), Optional: strict.Text(ref, "optional") == "true", At: at,
			Keys: []ReadKey{{Name: cmp.Or(strict.Text(ref, "valuesKey"), "values.yaml"), At: at, Text: strict.Text(ref, "targetPath") == ""}}, at: installed,
		})
		app.Reads = append(app.Reads, r)
	}
}

// applied records the data of applied objects, and leaves out applications with objects that cannot work here.
func (x *expander) applied(app *Application) {
	for _, o := range app.Objects {
		kind := strict.Text(o.Node, "kind")
		of := kind + " " + strict.Text(o.Node, "metadata", "name")
		if lacksNamespace(o.Node) {
			x.reject(app, o, of+" has no namespace, and Flux knows no default", "write metadata.namespace, or spec.targetNamespace of Kustomization "+app.Name)
		}
		switch {
		case Encrypted(o.Node):
			app.stall(of + " is encrypted, and its key is missing")
		case isImage(o.Node) && !slices.Contains(x.Extra, imageController(o.Node)), IsGenerator(o.Node) && !slices.Contains(x.Extra, flux.SourceWatcher):
			app.stall(of + " needs a component of Flux that is not installed: spec.engine.componentsExtra of the hub")
		case isOperator(o.Node):
			app.stall(of + " is " + operated)
		case served(o.Node) != "":
			x.reject(app, o, fmt.Sprintf("%s is of %s, which Flux no longer serves", of, strict.Text(o.Node, "apiVersion")), "write "+served(o.Node))
		case ignored(o.Node):
		case misfit(o) != nil:
			x.misfit(app, o, of)
		case app.mounted && needs.Flux().Rejected(o) != "":
			app.stall(of + " is " + needs.Flux().Rejected(o))
		default:
			x.holds(app, o)
		}
	}
}

// holds records the data of an object that an application applies, and what it reads itself.
func (x *expander) holds(app *Application, o render.Document) {
	switch kind := strict.Text(o.Node, "kind"); {
	case kind == accountKind || kind == "PersistentVolumeClaim" || kind == "PriorityClass" || kind == "RuntimeClass":
		x.data[dataKey(app.Remote, kind, key(o.Node))] = map[string]string{}
	case kind == "RoleBinding" || kind == "ClusterRoleBinding":
		for _, s := range strict.List(o.Node, "subjects") {
			x.data[bindingOf+dataKey(app.Remote, strict.Text(s, "kind"), strict.Text(s, "namespace")+"/"+strict.Text(s, "name"))] = map[string]string{}
		}
	case kind == "ConfigMap" || kind == "Secret":
		x.data[dataKey(app.Remote, kind, key(o.Node))], x.holders[dataKey(app.Remote, kind, key(o.Node))] = Data(o.Node), o
	case kind == "Receiver" && strings.HasPrefix(strict.Text(o.Node, "apiVersion"), "notification.toolkit.fluxcd.io/"):
		if ref := strict.Get(o.Node, "spec", "secretRef"); ref != nil {
			at := lab.Position{File: o.File, Line: cmp.Or(ref.Line, o.Line)}
			app.Reads = append(app.Reads, x.lookUp(Read{
				Kind: "Secret", Namespace: strict.Text(o.Node, "metadata", "namespace"), Name: strict.Text(ref, "name"), At: at, Keys: []ReadKey{{Name: "token", At: at}}, at: complete,
			}))
		}
	}
}

// misfit reports an object that the API server rejects, or leaves out the application if it is mounted.
func (x *expander) misfit(app *Application, o render.Document, of string) {
	p := *misfit(o)
	p.Message = of + ": " + p.Message
	if app.mounted {
		app.stall(p.String())
		return
	}
	x.Problems = append(x.Problems, p)
	app.invalid = p.Message
}

// Data returns the keys and values of a ConfigMap or a Secret.
func Data(n *yaml.Node) map[string]string {
	data := map[string]string{}
	for key, value := range strict.Pairs(n, "data") {
		if data[key.Value] = value.Value; strict.Text(n, "kind") != "ConfigMap" {
			decoded, err := base64.StdEncoding.DecodeString(value.Value)
			if err != nil {
				decoded = nil
			}
			data[key.Value] = string(decoded)
		}
	}
	for key, value := range strict.Pairs(n, "stringData") {
		if strict.Text(n, "kind") != "ConfigMap" {
			data[key.Value] = value.Value
		}
	}
	return data
}

// literal notes that an application's Kustomization has no variables, and returns that; "" if its objects have none either.
func (x *expander) literal(app *Application) string {
	for _, o := range app.Objects {
		n := expression(o.Node)
		if n == nil || render.Literal(o) {
			continue
		}
		at := lab.Position{File: o.File, Line: cmp.Or(n.Line, o.Line)}
		why := "Kustomization " + app.Name + " has no variables, so Flux substitutes nothing, not even defaults"
		_, text, _ := strings.Cut(n.Value, "${")
		text, _, _ = strings.Cut(text, "}")
		x.Notes = append(x.Notes, lab.Problem{Code: finding.LiteralVariable, Position: at, Message: why + ": ${" + text + "} stays as it is", Cure: "set any variable in spec.postBuild, or substituteStrategy: Always"})
		return why
	}
	return ""
}

// expression returns the first scalar with a ${variable}, or nil.
func expression(n *yaml.Node) *yaml.Node {
	for _, scalar := range strict.Scalars(n) {
		if strings.Contains(scalar.Value, "${") {
			return scalar
		}
	}
	return nil
}
