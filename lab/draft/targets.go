package draft

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

// target is a destination cluster of the repositories.
type target struct {
	name             string
	stage            string // its environment, if it is known
	server           string // as in manifests; empty if they use the name
	labels, metadata map[string]string
	at               lab.Position // of its registration Secret, or zero
	secrets          []fluxset.Kubeconfig
}

// hub reports whether it is the engine's cluster.
func (t target) hub() bool {
	return slices.Contains(hubNames, t.name) || t.name == "hub" || inCluster(t.server)
}

// hubNames are the usual names of the engine's own cluster: of Argo CD, and of products that come with it.
var hubNames = []string{appset.InClusterName, "local-cluster"}

func inCluster(server string) bool {
	return strings.HasPrefix(server, "https://kubernetes.default.svc") || strings.HasPrefix(server, "https://kubernetes.default:")
}

// registrations are where objects have the Secret that registers a cluster: their own fields, or the template of what a controller makes.
var registrations = map[string][]any{"Secret": {}, "SealedSecret": {"spec", "template"}, "ExternalSecret": {"spec", "target", "template"}}

// registered reads a cluster's registration, which is without a name if the object is none, or why it is useless.
func registered(file string, n *yaml.Node) (t target, problem string) {
	kind := strict.Text(n, "kind")
	of, known := registrations[kind]
	secret := strict.Get(n, of...)
	labels := templated(secret, "labels")
	if !known || labels[argo.SecretType] != argo.SecretTypeCluster {
		return t, ""
	}
	t = target{at: strict.Position(file, n), labels: map[string]string{}, metadata: map[string]string{}}
	data := func(key string) string {
		text := cmp.Or(strict.Text(secret, "stringData", key), strict.Text(secret, "data", key))
		if kind == "Secret" && strict.Text(secret, "stringData", key) == "" {
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return ""
			}
			text = string(decoded)
		}
		if strings.Contains(text, "{{") {
			return ""
		}
		return text
	}
	if t.name, t.server = clusterName(data("name")), data("server"); t.name == "" {
		name := strict.Text(n, "metadata", "name")
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return t, fmt.Sprintf("its name is %q", name)
		}
		t.name = clusterName(name)
	}
	for field, into := range map[string]map[string]string{"labels": t.labels, "annotations": t.metadata} {
		for key, value := range templated(secret, field) {
			foreign := strings.Contains(key, argo.Prefix) || strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, "app.kubernetes.io/")
			if !foreign && !strings.Contains(value, "{{") {
				into[key] = value
			}
		}
	}
	return t, ""
}

// templated returns the labels or annotations of a Secret, also those in a template's texts.
func templated(secret *yaml.Node, field string) map[string]string {
	all := maps.Clone(strict.Texts(secret, "metadata", field))
	for _, from := range strict.List(secret, "templateFrom") {
		if strings.EqualFold(strict.Text(from, "target"), field) {
			_ = yaml.Unmarshal([]byte(strict.Text(from, "literal")), &all) // others are made when it is applied
		}
	}
	return all
}

// unfit matches characters not used in clusters' names.
var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// clusterName converts a name, possibly an ARN, to a valid name.
func clusterName(name string) string {
	name = strings.Trim(unfit.ReplaceAllString(strings.ToLower(path.Base(name)), "-"), "-")
	return strings.Trim(name[:min(len(name), 30)], "-")
}

// targets returns the clusters that the repositories register or deploy to.
func (d *drafting) targets() []target {
	var list []target
	hub := &d.estate.Clusters[0]
	known := func(name string) bool {
		return slices.ContainsFunc(list, func(o target) bool { return o.name == name })
	}
	for _, t := range d.secrets {
		switch {
		case t.name == "" || known(t.name):
		case t.hub():
			d.adopt(hub, t)
		default:
			list = append(list, t)
		}
	}
	written := map[string]bool{}
	for _, to := range d.permitted {
		written[to.Server] = true
	}
	for _, doc := range d.docs {
		if d.replaced(doc) {
			continue
		}
		for _, to := range d.destinations(doc) {
			if isURL(to.Server) && !strings.Contains(to.Server, "{{") && !inCluster(to.Server) {
				written[to.Server] = true
				if !slices.ContainsFunc(list, func(o target) bool { return o.server == to.Server }) {
					list = append(list, target{name: d.nameOf(to.Server, list), server: to.Server})
				}
			}
			if t := (target{name: to.Name}); t.name != "" && t.name != hub.Name && !known(t.name) && !t.hub() && len(validation.IsDNS1123Label(t.name)) == 0 {
				list = append(list, t)
			}
		}
	}
	for i := range list {
		if !written[list[i].server] { // only read by templates
			list[i].server = ""
		}
	}
	if len(d.secrets) > 0 || slices.ContainsFunc(list, func(t target) bool { return t.server != "" }) {
		return list
	}
	for _, name := range d.clusterFolders() {
		if t := (target{name: name}); !t.hub() && name != hub.Name && !known(name) {
			list = append(list, t)
		}
	}
	return list
}

// replaced reports whether a document is only part of what a kustomization or chart generates.
func (d *drafting) replaced(doc *document) bool {
	return doc.from == nil && !doc.folder && slices.ContainsFunc(d.docs, func(made *document) bool {
		return made.from != nil && made.repo.Dir == doc.repo.Dir && made.file == doc.file
	})
}

// isURL reports whether a server is one that lab can imitate, unlike the ARN of a cluster.
func isURL(server string) bool {
	u, err := url.Parse(server)
	return err == nil && u.Host != ""
}

// destinations returns the destinations of a document's Applications, including unknown clusters.
func (d *drafting) destinations(doc *document) []appset.Destination {
	if doc.set == nil {
		return []appset.Destination{doc.app.Spec.Destination}
	}
	list := []appset.Destination{doc.set.Spec.Template.Spec.Destination}
	x := d.expand(doc, d.world())
	if len(doc.set.Selectors()) == 0 && len(x.Applications)+len(x.Invalid) > 0 { // independent of clusters
		list = nil
	}
	for _, a := range x.Applications {
		list = append(list, a.Spec.Destination)
	}
	for _, a := range x.Invalid {
		list = append(list, a.Destination)
	}
	return list
}

// service are hosts' first labels that do not name clusters.
var service = []string{"api", "apiserver", "api-server", "k8s", "k8s-api", "kube", "kube-api", "kubernetes", "master"}

// nameOf names a cluster after its address: the host's first label, or the whole IP address.
func (d *drafting) nameOf(server string, taken []target) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if strings.Trim(host, "0123456789.:") != "" {
		first, rest, _ := strings.Cut(host, ".")
		if host = first; slices.Contains(service, first) && strings.Contains(rest, ".") {
			host, _, _ = strings.Cut(rest, ".")
		}
	} else {
		host = "cluster-" + host
	}
	name := clusterName(host)
	if slices.ContainsFunc(taken, func(t target) bool { return t.name == name }) {
		name = clusterName(u.Host)
	}
	return name
}

func (d *drafting) spoke(t target, environment string) {
	c := newCluster(t.name, lab.RoleSpoke)
	c.Environment, c.Server = environment, t.server
	for _, k := range t.secrets {
		c.KubeconfigSecrets = append(c.KubeconfigSecrets, k.KubeconfigSecret)
		d.note(Key{In: "secret " + k.String(), Name: k.Key, Value: "kubeconfig of " + c.Name, How: Found, At: k.At})
	}
	if d.adopt(&c, t); t.at.File == "" && len(t.secrets) == 0 {
		d.guessed = append(d.guessed, Known{c.Name, environment})
	}
	d.estate.Clusters = append(d.estate.Clusters, c)
}

// adopt sets the labels and annotations of a cluster's Secret, except enable labels.
func (d *drafting) adopt(c *lab.Cluster, t target) {
	for key, value := range t.labels {
		if key == "environment" || strings.HasPrefix(key, enable) || len(validation.IsQualifiedName(key)) > 0 {
			continue
		}
		c.Labels[key] = value
		d.note(Key{Name: key, Label: true, Value: value, How: Found, At: t.at})
	}
	for key, value := range t.metadata {
		if strings.HasSuffix(key, "_repo_url") { // set by the draft, to the mirror
			continue
		}
		c.Metadata[key] = value
		d.note(Key{Name: key, Value: value, How: Found, At: t.at})
	}
}

// wants reports whether a cluster may have an addon: if its Secret enables it, or no Secret has the label.
func (d *drafting) wants(cluster, label string) bool {
	for _, t := range d.secrets {
		if value, ok := t.labels[label]; ok && t.name == cluster {
			return value == "true"
		}
	}
	return !d.labelled(label)
}

// labelled reports whether any Secret has a label.
func (d *drafting) labelled(label string) bool {
	return slices.ContainsFunc(d.secrets, func(t target) bool { _, ok := t.labels[label]; return ok })
}

// bare reports whether a cluster has no Secret while others have.
func (d *drafting) bare(c lab.Cluster) bool {
	return len(d.secrets) > 0 && !slices.ContainsFunc(d.secrets, func(t target) bool { return t.name == c.Name })
}

// namespaces adds to each cluster the namespaces that Applications are in or deploy to, and the repositories do not create.
func (d *drafting) namespaces() {
	type place struct{ cluster, namespace string }
	created, at := map[place]bool{}, map[place]lab.Position{}
	var expected []place
	w := d.world()
	for _, doc := range d.docs {
		expect := func(cluster, namespace string) {
			to := place{cluster, namespace}
			if len(validation.IsDNS1123Label(namespace)) == 0 && !d.defined[namespace] && !slices.Contains(expected, to) {
				expected, at[to] = append(expected, to), doc.at
			}
		}
		expect(d.estate.Hub().Name, strict.Text(doc.node, "metadata", "namespace"))
		for _, app := range d.applications(doc) {
			cluster, err := w.Destination(app.Spec.Destination)
			switch to := app.Spec.Destination.Namespace; {
			case err != nil:
			case app.Spec.CreatesNamespace():
				created[place{cluster, to}] = true
			default:
				expect(cluster, to)
			}
		}
	}
	for i := range d.estate.Clusters {
		c := &d.estate.Clusters[i]
		present := estate.Namespaces(d.estate, c.Name)
		for _, to := range expected {
			if to.cluster == c.Name && !slices.Contains(present, to.namespace) && !created[to] {
				c.Namespaces = append(c.Namespaces, to.namespace)
				d.note(namespaceKey(to.namespace, at[to]))
			}
		}
	}
}

func namespaceKey(name string, at lab.Position) Key {
	return Key{In: "namespace " + name, How: Found, At: at}
}
