package argocd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
)

// application is the part of Argo CD's Application that lab reads. Argo CD's own types do not compile with the current client-go.
type application struct {
	Metadata struct {
		Name              string                  `json:"name"`
		Namespace         string                  `json:"namespace"`
		Labels            map[string]string       `json:"labels"`
		Annotations       map[string]string       `json:"annotations"`
		ResourceVersion   string                  `json:"resourceVersion"`
		DeletionTimestamp string                  `json:"deletionTimestamp"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Source      map[string]any   `json:"source"`
		Sources     []map[string]any `json:"sources"`
		Destination destination      `json:"destination"`
		SyncPolicy  struct {
			Automated *struct {
				Prune   bool  `json:"prune"`
				Enabled *bool `json:"enabled"`
			} `json:"automated"`
			SyncOptions []any          `json:"syncOptions"`
			Retry       map[string]any `json:"retry"`
		} `json:"syncPolicy"`
		SourceHydrator *struct {
			DrySource struct {
				RepoURL string `json:"repoURL"`
			} `json:"drySource"`
			SyncSource struct {
				TargetBranch string `json:"targetBranch"`
				Path         string `json:"path"`
			} `json:"syncSource"`
		} `json:"sourceHydrator"`
	} `json:"spec"`
	Operation map[string]any `json:"operation"`
	Status    struct {
		Sync struct {
			Status     string   `json:"status"`
			Revision   string   `json:"revision"`
			Revisions  []string `json:"revisions"`
			ComparedTo struct {
				Source      map[string]any   `json:"source"`
				Sources     []map[string]any `json:"sources"`
				Destination destination      `json:"destination"`
			} `json:"comparedTo"`
		} `json:"sync"`
		Health struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"health"`
		Conditions     []condition `json:"conditions"`
		ReconciledAt   string      `json:"reconciledAt"` // last comparison
		OperationState struct {
			Phase      string `json:"phase"`
			Message    string `json:"message"`
			FinishedAt string `json:"finishedAt"` // of the last attempt
			RetryCount int    `json:"retryCount"`
			SyncResult struct {
				Revision  string   `json:"revision"`
				Revisions []string `json:"revisions"`
			} `json:"syncResult"`
		} `json:"operationState"`
		Resources []resource `json:"resources"`
		Summary   struct {
			Images []string `json:"images"`
		} `json:"summary"`
	} `json:"status"`
	Failed string `json:"-"` // why the previous attempt of the sync in progress failed, if that was seen
}

type destination struct {
	Name      string `json:"name"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
}

// condition is a condition of an Application or ApplicationSet; the former lack status and reason.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type resource struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
	Health    *struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"health"`
}

func parseApplication(o *unstructured.Unstructured) (application, error) {
	var a application
	// The converter is faster than JSON, and an Application is parsed on each of its many events.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &a); err != nil {
		return application{}, fmt.Errorf("application %s: %w", o.GetName(), err)
	}
	if h := a.Spec.SourceHydrator; h != nil { // GetSource
		a.Spec.Source = map[string]any{"repoURL": h.DrySource.RepoURL, "path": h.SyncSource.Path, "targetRevision": h.SyncSource.TargetBranch}
	}
	return a, nil
}

// Applications lists Argo CD's Applications by name, without the roots.
func (a *ArgoCD) Applications(ctx context.Context) ([]lab.Application, error) {
	v, err := a.list(ctx)
	if err != nil {
		return nil, err
	}
	return a.summarise(values(v.apps)), nil
}

// list returns a view of the Applications only.
func (a *ArgoCD) list(ctx context.Context) (view, error) {
	list, err := a.hub.Dynamic.Resource(applications).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return view{}, fmt.Errorf("applications: %w", err)
	}
	return newView(a.names, pointers(list.Items), nil)
}

// summarise converts Applications, except the roots, to lab's type.
func (a *ArgoCD) summarise(apps []application) []lab.Application {
	out := []lab.Application{}
	for _, app := range apps {
		if app.root() {
			continue
		}
		health, faulty := cmp.Or(app.Status.Health.Status, "Unknown"), app.faultySets()
		switch {
		case app.healthy(engine.Want{}):
			health, faulty = "Healthy", nil
		case !app.healthy(engine.Want{LeftOut: faulty}):
			faulty = nil
		}
		out = append(out, lab.Application{
			Name: app.Metadata.Name, Addon: a.names.addon(app), Cluster: a.names.cluster(app), Version: a.version(app),
			Sync: cmp.Or(app.Status.Sync.Status, "Unknown"), Health: health,
			Message: app.message(), Revision: app.revision(), Namespace: app.Spec.Destination.Namespace, Leads: app.containsApps(), FaultySets: strings.Join(faulty, ","),
		})
	}
	slices.SortFunc(out, func(x, y lab.Application) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// root reports whether lab applied the Application.
func (a application) root() bool { return a.Metadata.Labels[lab.LabelPart] == "root" }

// containsApps reports whether an Application contains only Applications and ApplicationSets. This is unknown, and false, before its first sync.
func (a application) containsApps() bool {
	return len(a.Status.Resources) > 0 && !slices.ContainsFunc(a.Status.Resources, func(r resource) bool {
		return r.Group != applications.Group || r.Namespace != a.Metadata.Namespace
	})
}

// generated reports whether the Application was created by an ApplicationSet or another Application.
func (a application) generated() bool {
	if a.Metadata.Annotations[argo.TrackingID] != "" || a.Metadata.Labels["app.kubernetes.io/instance"] != "" {
		return true
	}
	return slices.ContainsFunc(a.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ApplicationSet" })
}

func (a application) terminating() bool { return a.Metadata.DeletionTimestamp != "" }

// retries reports whether a sync failed and will be retried.
func (a application) retries() bool {
	op := a.Status.OperationState
	return op.Phase == "Running" && op.FinishedAt != ""
}

// sources returns the sources with their compared revisions.
func (a application) sources() ([]map[string]any, []string) {
	if len(a.Spec.Sources) > 0 {
		return a.Spec.Sources, a.Status.Sync.Revisions
	}
	if a.Spec.Source == nil {
		return nil, nil
	}
	return []map[string]any{a.Spec.Source}, []string{a.Status.Sync.Revision}
}

// version returns the user-facing version of an Application: that of its chart, else of its image, else its commit.
func (a *ArgoCD) version(app application) string {
	sources, revisions := app.sources()
	for i, s := range sources {
		if text(s, "chart") == "" {
			continue
		}
		if i < len(revisions) && revisions[i] != "" {
			return revisions[i] // a range in targetRevision resolves to it
		}
		return text(s, "targetRevision")
	}
	for _, s := range sources {
		if path := text(s, "path"); path != "" && a.chartVersion != nil {
			if v := a.chartVersion(path); v != "" {
				return v
			}
		}
	}
	for _, image := range app.Status.Summary.Images {
		image, _, _ = strings.Cut(image, "@")
		if _, tag := helm.SplitRef(image); tag != "" {
			return tag
		}
	}
	return abbreviated(app.revision())
}

// revision returns the compared Git commit, if any.
func (a application) revision() string {
	sources, revisions := a.sources()
	for i, s := range sources {
		if text(s, "chart") == "" && i < len(revisions) {
			return revisions[i]
		}
	}
	return ""
}

func abbreviated(revision string) string {
	if len(revision) > 7 {
		return revision[:7]
	}
	return revision
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func (a application) automated() bool {
	au := a.Spec.SyncPolicy.Automated
	return au != nil && (au.Enabled == nil || *au.Enabled)
}

// compared reports whether the status refers to the current spec. Empty fields are ignored, as Argo CD adds and drops them.
func (a application) compared() bool {
	was, is := a.Status.Sync.ComparedTo, a.Spec
	if len(is.Sources) > 0 {
		if len(is.Sources) != len(was.Sources) {
			return false
		}
		for i := range is.Sources {
			if !equalIgnoringEmpty(is.Sources[i], was.Sources[i]) {
				return false
			}
		}
	} else if !equalIgnoringEmpty(is.Source, was.Source) {
		return false
	}
	return is.Destination == was.Destination
}

func equalIgnoringEmpty(a, b any) bool {
	x, errX := json.Marshal(dropEmpty(a))
	y, errY := json.Marshal(dropEmpty(b))
	return errX == nil && errY == nil && string(x) == string(y)
}

// dropEmpty drops empty values recursively.
func dropEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if s := dropEmpty(e); s != nil {
				out[k] = s
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = dropEmpty(e)
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}
