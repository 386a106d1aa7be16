package argocd

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine"
)

// pointing redirects sources to the addresses of a root.
type pointing struct {
	engine.Root
	estate  string            // normalized address of the estate
	mirrors map[string]string // by normalized address of the repository
}

// point redirects the sources of a root's objects that read the estate or a mirrored repository to the addresses in root. AppProjects are not adapted.
func point(objects []*unstructured.Unstructured, root engine.Root) {
	p := pointing{Root: root, mirrors: map[string]string{}}
	for address, mirror := range root.Mirrors {
		p.mirrors[lab.RepositoryKey(address)] = mirror
	}
	p.estate = p.address(objects)
	for _, o := range objects {
		spec, _ := o.Object["spec"].(map[string]any)
		switch o.GetKind() {
		case "Application":
			if spec == nil {
				spec = map[string]any{}
				o.Object["spec"] = spec
			}
			if spec["source"] == nil && spec["sources"] == nil {
				spec["source"] = map[string]any{}
			}
			p.fields(spec)
		case "ApplicationSet":
			p.fields(spec)
		}
	}
}

// address returns the estate's address: that of the first Git source of an Application which is not a mirrored repository.
func (p *pointing) address(objects []*unstructured.Unstructured) string {
	for _, o := range objects {
		if o.GetKind() != "Application" {
			continue
		}
		app, err := parseApplication(o)
		if err != nil {
			continue // left to the API server to report
		}
		sources, _ := app.sources()
		for _, s := range sources {
			key := lab.RepositoryKey(text(s, "repoURL"))
			if _, mirrored := p.mirrors[key]; text(s, "chart") == "" && !mirrored {
				return key
			}
		}
	}
	return ""
}

// fields redirects sources and Git generators.
func (p *pointing) fields(m map[string]any) {
	for key, v := range m {
		switch v := v.(type) {
		case map[string]any:
			switch key {
			case "source":
				p.source(v, "targetRevision", true)
			case "git":
				p.source(v, "revision", false)
			}
			p.fields(v)
		case []any:
			for _, e := range v {
				e, ok := e.(map[string]any)
				if !ok {
					continue
				}
				if key == "sources" {
					p.source(e, "targetRevision", true)
				}
				p.fields(e)
			}
		}
	}
}

// source redirects one source. It sets the revision if present, or if always is set.
func (p *pointing) source(s map[string]any, revision string, always bool) {
	address := text(s, "repoURL")
	if text(s, "chart") != "" || strings.Contains(address, "{{") {
		return
	}
	key := lab.RepositoryKey(address)
	if mirror := p.mirrors[key]; mirror != "" && key != p.estate {
		s["repoURL"] = mirror
		if lab.RepositoryKey(mirror) != lab.RepositoryKey(p.RepoURL) {
			return
		}
	} else if key != p.estate {
		return
	} else if p.RepoURL != "" {
		s["repoURL"] = p.RepoURL
	}
	if _, there := s[revision]; p.Revision != "" && (there || always) {
		s[revision] = p.Revision
	}
}
