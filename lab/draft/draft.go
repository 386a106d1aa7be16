// Package draft writes an estate beside Git repositories that know nothing of lab: the clusters that their ApplicationSets select, or that Flux has folders for, the
// keys that are read, and roots that lead to them.
package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/cloud"
	"homelab/lab/estate"
)

// How a value came to be.
const (
	Found  = "found"       // as the repository has it
	MadeUp = "made up"     // any value does, and lab chose one
	Open   = "to be given" // the repository has no value

	Bridged = "from the bridge" // as lab makes it up for each cluster
)

// Key is what the repositories read, or select clusters by: a label, an annotation, a key of a ConfigMap or a Secret, or either as a whole.
type Key struct {
	Name  string
	In    string // the ConfigMap or Secret that has it, "configmap flux-system/settings"; empty for a label or an annotation
	Label bool
	Value string
	How   string
	At    lab.Position // where it is read
}

// Switch is an addon.
type Switch struct {
	Addon string
	On    bool
	Why   string // it is off; empty where it is on
	At    lab.Position
}

// Draft is an estate to be written.
type Draft struct {
	Files        fs.FS
	Repositories []lab.Repository
	Clusters     []string // hub first
	Namespace    string   // of the engine; empty for its usual one

	Keys   []Key
	Addons []Switch
	Roots  []lab.Position // of the ApplicationSets and Applications that the root syncs
	Beside []lab.Position // of those that nothing leads to, and that the root leaves out

	Without []Left // of what Flux is led to, and that does not come to the lab
}

// Left is an object that a draft leaves out.
type Left struct {
	At  lab.Position
	Why string
}

// drafting is a draft in the making.
type drafting struct {
	Draft
	estate    *lab.Estate
	docs      []*document
	secrets   []target // clusters that the repositories register
	projects  []string // that the repositories have
	permitted []string // servers that these permit
	keys      map[string]*Key
	taken     map[*document]bool // by the root
	rendered  map[string]bool    // sources of Applications
	flux      syncs
	alone     bool // the hub is the only cluster
	invented  bool // nothing names a spoke, and there is one all the same
}

// New drafts the estate of a lab beside repositories, the first of which has the root.
func New(name string, repositories []lab.Repository) (*Draft, error) {
	d := &drafting{estate: &lab.Estate{Name: name, Repositories: repositories}, keys: map[string]*Key{}, taken: map[*document]bool{}, rendered: map[string]bool{}}
	for i := range d.estate.Repositories {
		if err := d.scan(&d.estate.Repositories[i]); err != nil {
			return nil, err
		}
	}
	if len(d.docs) == 0 {
		if roots := d.flux.roots(); len(roots) > 0 {
			return d.fluxDraft(roots)
		}
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "no_applications",
			Message: "no ApplicationSet or Application in " + folders(repositories) + ", and no folder that Flux syncs to a cluster",
			Cure:    "name the repository that has them: lab init --from DIR NEW",
		}
	}
	d.Namespace = d.engineNamespace()
	for range deepest {
		d.estate.Clusters, d.estate.Environments, d.keys = nil, nil, map[string]*Key{}
		d.environments()
		d.cloud()
		d.selected()
		d.read()
		if !d.alone && d.oneAtATime() {
			d.alone = true
			continue
		}
		if d.render() {
			continue
		}
		if d.alone || !d.idle() {
			break
		}
		d.alone = true
	}
	d.switches()
	d.roots()
	return d.done(d.write()), nil
}

// done is the draft of what was found out.
func (d *drafting) done(f fs.FS) *Draft {
	d.Keys = slices.SortedFunc(values(d.keys), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.In, b.In), cmp.Compare(a.Name, b.Name), cmp.Compare(fmt.Sprint(a.Label), fmt.Sprint(b.Label)))
	})
	d.Files, d.Repositories = f, d.estate.Repositories
	for _, c := range d.estate.Clusters {
		d.Clusters = append(d.Clusters, c.Name)
	}
	return &d.Draft
}

func values(m map[string]*Key) func(func(Key) bool) {
	return func(yield func(Key) bool) {
		for _, k := range m {
			if !yield(*k) {
				return
			}
		}
	}
}

func folders(repositories []lab.Repository) string {
	var names []string
	for _, r := range repositories {
		names = append(names, r.Dir)
	}
	return strings.Join(names, ", ")
}

// cloud is the one whose keys are read; none where there are no such keys.
func (d *drafting) cloud() {
	for _, doc := range d.docs {
		for _, u := range doc.uses {
			for _, provider := range []string{cloud.AWS, cloud.Azure, cloud.GCP} {
				if strings.HasPrefix(u.key, provider+"_") || strings.HasSuffix(u.key, "_iam_role_arn") && provider == cloud.AWS {
					d.environment(lab.DefaultEnvironment).Cloud.Provider = provider
					return
				}
			}
		}
	}
}

func (d *drafting) environment(name string) *lab.Environment {
	for i := range d.estate.Environments {
		if d.estate.Environments[i].Name == name {
			return &d.estate.Environments[i]
		}
	}
	d.estate.Environments = append(d.estate.Environments, lab.Environment{Name: name, Labels: map[string]string{}, Metadata: map[string]string{}})
	return &d.estate.Environments[len(d.estate.Environments)-1]
}

// note keeps how a key came to its value; the first place where it is read counts.
func (d *drafting) note(k Key) {
	id := k.In + fmt.Sprint(k.Label, k.Name)
	if _, known := d.keys[id]; !known {
		d.keys[id] = &k
	}
}

// world is what the ApplicationSets are expanded against.
func (d *drafting) world() appset.World { return estate.World(d.estate, d.estate.Clusters) }

// registered are the labels and annotations that a cluster of the draft has.
func (d *drafting) registered(c lab.Cluster) lab.Registration {
	env, _ := d.estate.Environment(c.Environment)
	def, _ := d.estate.Environment(lab.DefaultEnvironment)
	return bridge.Build(d.estate.Name, env, def, c, bridge.InputsOf(d.estate))
}

// files is what a draft writes.
type files map[string]string

func (f files) fs() fs.FS {
	out := fstest.MapFS{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		out[name] = &fstest.MapFile{Data: []byte(f[name]), Mode: 0o644}
	}
	return out
}
