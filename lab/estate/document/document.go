// Package document strictly reads lab's own documents, cluster.yaml and environment.yaml: unknown keys, wrong types and
// contradictions within a document are problems with their positions.
package document

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// document reads the only document of a cluster.yaml or environment.yaml. The caller decodes the spec.
func (r *reader) document(data []byte, kind string, name *string, spec entry) *yaml.Node {
	docs, problems := strict.Parse(r.File, data)
	r.Problems = append(r.Problems, problems...)
	if len(problems) > 0 {
		return nil
	}
	if len(docs) != 1 {
		at := lab.Position{File: r.File, Line: 1}
		message := "the file is empty"
		if len(docs) > 1 {
			at, message = strict.Position(r.File, docs[1]), fmt.Sprintf("%d documents in one file", len(docs))
		}
		r.failAt(at, message, "write one "+kind)
		return nil
	}
	root := docs[0]
	var apiVersion, is string
	r.mapping(root, "",
		entry{"apiVersion", r.word(&apiVersion, lab.APIVersion)},
		entry{"kind", r.word(&is, kind)},
		entry{"metadata", func(n *yaml.Node, at string) { r.mapping(n, at, entry{"name", r.into(name)}) }},
		spec,
	)
	if root.Kind != yaml.MappingNode {
		return nil
	}
	r.need(root, "apiVersion", "kind", "metadata.name")
	r.name(*name, path.Base(path.Dir(r.File)))
	return root
}

// name checks a document's name against its folder, by which it is referred to.
func (r *reader) name(name, folder string) {
	at, ok := r.At["metadata.name"]
	if !ok || name == "" && len(r.Problems) > 0 {
		return
	}
	switch {
	case !IsName(name):
		r.failAt(at, fmt.Sprintf("%q cannot be a name", name), "lower-case letters, digits and hyphens, at most 63, a letter or digit at both ends")
	case name != folder:
		r.failAt(at, fmt.Sprintf("the name is %q and the folder %q", name, folder), "they must be the same")
	}
}

// IsName reports whether something can have a name: it is a DNS label.
func IsName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// IsForeign reports whether a document is another tool's.
func IsForeign(file string, data []byte) bool {
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 || len(docs) == 0 {
		return false
	}
	is, kind := strict.Text(docs[0], "apiVersion"), strict.Text(docs[0], "kind")
	group, _, _ := strings.Cut(is, "/")
	near := strict.Closest(is, []string{lab.APIVersion}) != "" || strict.Closest(kind, []string{"Cluster", "Environment"}) != ""
	return strings.Contains(group, ".") || is != "" && group != "lab" && !near
}

// Cluster decodes a cluster.yaml. dir is the base of relative mounts in spec.kind, or empty if not on disk.
func Cluster(file string, data []byte, dir string) (lab.Cluster, lab.Problems) {
	r := &reader{strict.NewReader(file)}
	c := lab.Cluster{File: file, ControlPlanes: 1}
	var role, engine, shape string
	provider := string(lab.ProviderKind)
	root := r.document(data, "Cluster", &c.Name, entry{"spec", func(n *yaml.Node, at string) {
		r.mapping(n, at,
			entry{"role", r.word(&role, string(lab.RoleHub), string(lab.RoleSpoke))},
			entry{"environment", func(n *yaml.Node, at string) {
				if r.into(&c.Environment)(n, at); n.Value == "" && n.Kind == yaml.ScalarNode {
					r.Fail(n, at+" is empty", "")
				}
			}},
			entry{"provider", r.word(&provider, string(lab.ProviderKind), string(lab.ProviderExisting))},
			entry{"server", r.into(&c.Server)},
			entry{"existing", func(n *yaml.Node, at string) {
				r.mapping(n, at,
					entry{"kubeconfig", r.into(&c.Existing.Kubeconfig)},
					entry{"context", r.into(&c.Existing.Context)},
					entry{"server", r.into(&c.Existing.Server)},
				)
			}},
			entry{"cloud", r.cloud(&c.Cloud)},
			entry{"addons", r.truths(&c.Addons)},
			entry{"labels", r.texts(&c.Labels)},
			entry{"metadata", r.texts(&c.Metadata)},
			entry{"engine", func(n *yaml.Node, at string) {
				r.mapping(n, at,
					entry{"type", r.word(&engine, lab.DefaultEngine.Words()...)},
					entry{"version", r.version(&c.Engine.Version)},
					entry{"shape", r.word(&shape, string(lab.ShapeHub), string(lab.ShapeStandalone))},
					entry{"namespace", r.into(&c.Engine.Namespace)},
					entry{"componentsExtra", r.words(&c.Engine.Extra, flux.ImageReflector, flux.ImageAutomation, flux.SourceWatcher)},
					entry{"values", r.values(&c.Engine.Values)},
				)
			}},
			entry{"registry", func(n *yaml.Node, at string) {
				r.mapping(n, at, entry{"through", r.upstreams(&c.Through)})
				c.Registry = true
			}},
			entry{"door", func(n *yaml.Node, at string) {
				r.mapping(n, at)
				c.Door = true
			}},
			entry{"runner", func(n *yaml.Node, at string) {
				r.mapping(n, at) // .lab/runner.yaml has the settings
				c.Runner = true
			}},
			entry{"repositories", r.texts(&c.Mounts)},
			entry{"namespaces", r.namespaces(&c.Namespaces)},
			entry{"kubeconfigSecrets", r.kubeconfigSecrets(&c.KubeconfigSecrets)},
			entry{"kubernetes", r.version(&c.Kubernetes)},
			entry{"kind", r.kind(&c, dir)},
		)
	}})
	if root != nil {
		r.need(root, "spec.role")
	}
	c.Role, c.Provider = lab.Role(role), lab.Provider(provider)
	if at, ok := r.At["spec.engine"]; ok && c.Role == lab.RoleSpoke {
		r.failAt(at, "a spoke has no engine", "spec.engine belongs to the hub")
	}
	if at, ok := r.At["spec.registry"]; ok && c.Role == lab.RoleSpoke {
		r.failAt(at, "a spoke has no registry", "spec.registry belongs to the hub, and serves every cluster")
	}
	if at, ok := r.At["spec.door"]; ok && c.Role == lab.RoleSpoke {
		r.failAt(at, "a spoke has no door", "spec.door belongs to the hub, and leads to every cluster")
	}
	if at, ok := r.At["spec.runner"]; ok && c.Role == lab.RoleSpoke {
		r.failAt(at, "a spoke has no runner", "spec.runner belongs to the hub: pull requests are the estate's")
	}
	if at, ok := r.At["spec.repositories"]; ok && c.Role == lab.RoleSpoke {
		r.failAt(at, "a spoke mounts no repositories", "spec.repositories belongs to the hub")
	}
	if at, ok := r.At["spec.namespaces"]; ok && c.Provider == lab.ProviderExisting {
		r.failAt(at, "lab creates no namespaces in an existing cluster", "create them there, or in the manifests of an addon")
	}
	if at, ok := r.At["spec.kubernetes"]; ok && c.Provider == lab.ProviderExisting {
		r.failAt(at, "the version of an existing cluster is its owner's", "leave it out")
	}
	if at, ok := r.At["spec.kubeconfigSecrets"]; ok && c.Role == lab.RoleHub {
		r.failAt(at, "the hub's Flux needs no kubeconfig of the hub", "spec.kubeconfigSecrets belongs to a spoke")
	}
	if c.Role == lab.RoleHub {
		c.Engine.Type = cmp.Or(lab.EngineType(engine), lab.DefaultEngine)
		if c.Engine.Type == lab.EngineFlux {
			c.Engine.Shape = cmp.Or(lab.Shape(shape), lab.ShapeHub)
			r.extra(c.Engine.Extra)
		} else {
			r.fluxOnly("spec.engine.shape", c.Engine.Type.Title()+" has one shape: it runs on the hub")
			r.fluxOnly("spec.engine.componentsExtra", "these are controllers of Flux")
		}
	}
	switch ns := c.Engine.Namespace; {
	case ns == argo.Namespace:
		c.Engine.Namespace = ""
	case ns != "" && (!IsName(ns) || ns == "default" || strings.HasPrefix(ns, "kube-")):
		r.failAt(r.At["spec.engine.namespace"], fmt.Sprintf("the engine cannot run in namespace %q", ns), "use a dedicated namespace: "+argo.Namespace)
	}
	c.Positions = r.At
	return c, append(r.Problems, existing(c)...)
}

func (r *reader) fluxOnly(field, message string) {
	if at, ok := r.At[field]; ok {
		r.failAt(at, message, "leave it out, or add type: flux")
	}
}

// namespaces reads names of namespaces.
func (r *reader) namespaces(to *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		r.items(n, at, func(n *yaml.Node, at string) {
			var name string
			before := len(r.Problems)
			switch r.into(&name)(n, at); {
			case len(r.Problems) > before:
			case !IsName(name):
				r.Fail(n, fmt.Sprintf("%s: %q cannot be a namespace", at, name), "lower-case letters, digits and hyphens, at most 63")
			case slices.Contains(*to, name):
				r.Fail(n, at+" repeats "+name, "leave it out")
			default:
				*to = append(*to, name)
			}
		})
	}
}

// kubeconfigSecrets reads references to Secrets.
func (r *reader) kubeconfigSecrets(to *[]lab.KubeconfigSecret) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		r.items(n, at, func(n *yaml.Node, at string) {
			r.At[fmt.Sprintf("spec.kubeconfigSecrets[%d]", len(*to))] = strict.Position(r.File, n) // without invalid ones
			k := lab.KubeconfigSecret{Key: flux.KubeconfigKey}
			before := len(r.Problems)
			r.mapping(n, at, entry{"namespace", r.into(&k.Namespace)}, entry{"name", r.into(&k.Name)}, entry{"key", r.into(&k.Key)})
			switch {
			case len(r.Problems) > before:
			case !IsName(k.Namespace):
				r.Fail(n, fmt.Sprintf("%s: %q cannot be a namespace", at, k.Namespace), "{namespace: production, name: cluster-kubeconfig}")
			case len(validation.IsDNS1123Subdomain(k.Name)) > 0:
				r.Fail(n, fmt.Sprintf("%s: %q cannot be the name of a Secret", at, k.Name), "{namespace: production, name: cluster-kubeconfig}")
			case len(validation.IsConfigMapKey(k.Key)) > 0:
				r.Fail(n, fmt.Sprintf("%s: %q cannot be a key of a Secret", at, k.Key), "leave it out: "+flux.KubeconfigKey)
			default:
				*to = append(*to, k)
			}
		})
	}
}

// extra checks Flux's additional controllers: image automation commits the tags that the image reflector finds.
func (r *reader) extra(names []string) {
	if slices.Contains(names, flux.ImageAutomation) && !slices.Contains(names, flux.ImageReflector) {
		r.failAt(r.At["spec.engine.componentsExtra"], flux.ImageAutomation+" has nothing to commit without "+flux.ImageReflector,
			"componentsExtra: ["+flux.ImageReflector+", "+flux.ImageAutomation+"]")
	}
}

// Environment decodes an environment.yaml.
func Environment(file string, data []byte) (lab.Environment, lab.Problems) {
	r := &reader{strict.NewReader(file)}
	e := lab.Environment{File: file}
	r.document(data, "Environment", &e.Name, entry{"spec", func(n *yaml.Node, at string) {
		r.mapping(n, at,
			entry{"order", func(n *yaml.Node, at string) {
				before := len(r.Problems)
				if r.into(&e.Order)(n, at); len(r.Problems) == before && e.Order < 0 {
					r.Fail(n, "spec.order cannot be below 0", "promotion goes upwards, from 1")
				}
			}},
			entry{"cloud", r.cloud(&e.Cloud)},
			entry{"labels", r.texts(&e.Labels)},
			entry{"metadata", r.texts(&e.Metadata)},
		)
	}})
	e.Positions = r.At
	return e, r.Problems
}

func (r *reader) cloud(c *lab.Cloud) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		r.mapping(n, at,
			entry{"provider", r.word(&c.Provider, "aws", "azure", "gcp", "none")},
			entry{"seed", r.into(&c.Seed)},
			entry{"region", r.into(&c.Region)},
			entry{"accountID", r.into(&c.AccountID)},
			entry{"vpcID", r.into(&c.VPCID)},
			entry{"subnets", r.into(&c.Subnets)},
			entry{"subscriptionID", r.into(&c.SubscriptionID)},
			entry{"tenantID", r.into(&c.TenantID)},
			entry{"resourceGroup", r.into(&c.ResourceGroup)},
			entry{"projectID", r.into(&c.ProjectID)},
			entry{"projectNumber", r.into(&c.ProjectNumber)},
			entry{"network", r.into(&c.Network)},
		)
	}
}

// values reads Helm values verbatim.
func (r *reader) values(to *map[string]any) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		if !r.isMapping(n, at) {
			return
		}
		if err := n.Decode(to); err != nil {
			r.Fail(n, at+" cannot be read: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
		}
	}
}
