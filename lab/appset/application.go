package appset

import (
	"cmp"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Template is an Application or its template. The types have the fields of Argo CD's API in order, with its rules for
// empty values, which affect the stored object; TestTypesMatchCRD compares them with the CRDs. A field's since is the minor that it came with, if not the oldest.
type Template struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata is the part of an Application's metadata that a template can set.
type Metadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty" patchStrategy:"merge"`
}

type Spec struct {
	Source               *Source         `json:"source,omitempty"`
	Destination          Destination     `json:"destination"`
	Project              string          `json:"project"`
	SyncPolicy           *SyncPolicy     `json:"syncPolicy,omitempty"`
	IgnoreDifferences    []Difference    `json:"ignoreDifferences,omitempty"`
	Info                 []Info          `json:"info,omitempty"`
	RevisionHistoryLimit *int64          `json:"revisionHistoryLimit,omitempty"`
	Sources              []Source        `json:"sources,omitempty"`
	SourceHydrator       *SourceHydrator `json:"sourceHydrator,omitempty"`
}

// Ref returns the source that others refer to by a name.
func (s *Spec) Ref(name string) (Source, bool) {
	for _, source := range s.All() {
		if source.Ref == name {
			return source, true
		}
	}
	return Source{}, false
}

// All returns the sources of an Application. A hydrated one is synced from what was hydrated.
func (s *Spec) All() []Source {
	if h := s.SourceHydrator; h != nil {
		return []Source{{RepoURL: cmp.Or(h.SyncSource.RepoURL, h.DrySource.RepoURL), Path: h.SyncSource.Path, TargetRevision: h.SyncSource.TargetBranch}}
	}
	if len(s.Sources) > 0 {
		return s.Sources
	}
	if s.Source != nil {
		return []Source{*s.Source}
	}
	return nil
}

type Destination struct {
	Server    string `json:"server,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

type Source struct {
	RepoURL        string     `json:"repoURL"`
	Path           string     `json:"path,omitempty"`
	TargetRevision string     `json:"targetRevision,omitempty"`
	Helm           *Helm      `json:"helm,omitempty"`
	Kustomize      *Kustomize `json:"kustomize,omitempty"`
	Directory      *Directory `json:"directory,omitempty"`
	Plugin         *Plugin    `json:"plugin,omitempty"`
	Chart          string     `json:"chart,omitempty"`
	Ref            string     `json:"ref,omitempty"`
	Name           string     `json:"name,omitempty"`
	TagPrefix      string     `json:"tagPrefix,omitempty" since:"5"`
}

// Types returns the types of which a source has options. Argo CD rejects more than one.
func (s Source) Types() []string {
	var types []string
	for _, t := range []struct {
		name string
		set  bool
	}{{"Kustomize", s.Kustomize != nil}, {"Helm", s.Helm != nil}, {"Directory", s.Directory != nil}, {"Plugin", s.Plugin != nil}} {
		if t.set {
			types = append(types, t.name)
		}
	}
	return types
}

type Helm struct {
	ValueFiles              []string              `json:"valueFiles,omitempty"`
	Parameters              []HelmParameter       `json:"parameters,omitempty"`
	ReleaseName             string                `json:"releaseName,omitempty"`
	Values                  string                `json:"values,omitempty"`
	FileParameters          []HelmFileParameter   `json:"fileParameters,omitempty"`
	Version                 string                `json:"version,omitempty"`
	PassCredentials         bool                  `json:"passCredentials,omitempty"`
	IgnoreMissingValueFiles bool                  `json:"ignoreMissingValueFiles,omitempty"`
	SkipCrds                bool                  `json:"skipCrds,omitempty"`
	ValuesObject            *runtime.RawExtension `json:"valuesObject,omitempty"`
	Namespace               string                `json:"namespace,omitempty"`
	KubeVersion             string                `json:"kubeVersion,omitempty"`
	APIVersions             []string              `json:"apiVersions,omitempty"`
	SkipTests               bool                  `json:"skipTests,omitempty"`
	SkipSchemaValidation    bool                  `json:"skipSchemaValidation,omitempty"`
}

func (h *Helm) empty() bool {
	return h.Version == "" && h.ReleaseName == "" && len(h.ValueFiles) == 0 && len(h.Parameters) == 0 && len(h.FileParameters) == 0 && h.Values == "" &&
		(h.ValuesObject == nil || len(h.ValuesObject.Raw) == 0) && !h.PassCredentials && !h.IgnoreMissingValueFiles && !h.SkipCrds && !h.SkipTests &&
		!h.SkipSchemaValidation && h.KubeVersion == "" && len(h.APIVersions) == 0 && h.Namespace == ""
}

type HelmParameter struct {
	Name        string `json:"name,omitempty"`
	Value       string `json:"value,omitempty"`
	ForceString bool   `json:"forceString,omitempty"`
}

type HelmFileParameter struct {
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
}

type Kustomize struct {
	NamePrefix                string             `json:"namePrefix,omitempty"`
	NameSuffix                string             `json:"nameSuffix,omitempty"`
	Images                    []string           `json:"images,omitempty"`
	CommonLabels              map[string]string  `json:"commonLabels,omitempty"`
	Version                   string             `json:"version,omitempty"`
	CommonAnnotations         map[string]string  `json:"commonAnnotations,omitempty"`
	ForceCommonLabels         bool               `json:"forceCommonLabels,omitempty"`
	ForceCommonAnnotations    bool               `json:"forceCommonAnnotations,omitempty"`
	Namespace                 string             `json:"namespace,omitempty"`
	CommonAnnotationsEnvsubst bool               `json:"commonAnnotationsEnvsubst,omitempty"`
	Replicas                  []KustomizeReplica `json:"replicas,omitempty"`
	Patches                   []KustomizePatch   `json:"patches,omitempty"`
	Components                []string           `json:"components,omitempty"`
	IgnoreMissingComponents   bool               `json:"ignoreMissingComponents,omitempty"`
	LabelWithoutSelector      bool               `json:"labelWithoutSelector,omitempty"`
	KubeVersion               string             `json:"kubeVersion,omitempty"`
	APIVersions               []string           `json:"apiVersions,omitempty"`
	LabelIncludeTemplates     bool               `json:"labelIncludeTemplates,omitempty"`
}

// empty ignores the fields that upstream's IsZero ignores.
func (k *Kustomize) empty() bool {
	return k.NamePrefix == "" && k.NameSuffix == "" && k.Version == "" && k.Namespace == "" && len(k.Images) == 0 && len(k.Replicas) == 0 &&
		len(k.CommonLabels) == 0 && len(k.CommonAnnotations) == 0 && len(k.Patches) == 0 && len(k.Components) == 0 && k.KubeVersion == "" &&
		len(k.APIVersions) == 0 && !k.IgnoreMissingComponents
}

type KustomizeReplica struct {
	Name  string             `json:"name"`
	Count intstr.IntOrString `json:"count"`
}

type KustomizePatch struct {
	Path    string           `json:"path,omitempty"`
	Patch   string           `json:"patch,omitempty"`
	Target  *KustomizeTarget `json:"target,omitempty"`
	Options map[string]bool  `json:"options,omitempty"`
}

type KustomizeTarget struct {
	Group              string `json:"group,omitempty"`
	Version            string `json:"version,omitempty"`
	Kind               string `json:"kind,omitempty"`
	Name               string `json:"name,omitempty"`
	Namespace          string `json:"namespace,omitempty"`
	AnnotationSelector string `json:"annotationSelector,omitempty"`
	LabelSelector      string `json:"labelSelector,omitempty"`
}

type Directory struct {
	Recurse bool    `json:"recurse,omitempty"`
	Jsonnet Jsonnet `json:"jsonnet,omitempty,omitzero"`
	Exclude string  `json:"exclude,omitempty"`
	Include string  `json:"include,omitempty"`

	// DisableExtensionFilter takes files with other extensions than manifests, too.
	DisableExtensionFilter bool `json:"disableExtensionFilter,omitempty" since:"6"`
}

func (d *Directory) empty() bool {
	return !d.Recurse && d.Jsonnet.IsZero() && !d.DisableExtensionFilter
}

type Jsonnet struct {
	ExtVars []JsonnetVar `json:"extVars,omitempty"`
	TLAs    []JsonnetVar `json:"tlas,omitempty"`
	Libs    []string     `json:"libs,omitempty"`
}

// IsZero reports whether it has no options. A template's empty lists are not nil.
func (j Jsonnet) IsZero() bool { return len(j.ExtVars) == 0 && len(j.TLAs) == 0 && len(j.Libs) == 0 }

type JsonnetVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Code  bool   `json:"code,omitempty"`
}

type Plugin struct {
	Name       string            `json:"name,omitempty"`
	Env        []*EnvEntry       `json:"env,omitempty"`
	Parameters []PluginParameter `json:"parameters,omitempty"`
}

type EnvEntry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PluginParameter has one of three forms; an empty map or array differs from none.
type PluginParameter struct {
	Name           string  `json:"name,omitempty"`
	Text           *string `json:"string,omitempty"`
	*OptionalMap   `json:",omitempty"`
	*OptionalArray `json:",omitempty"`
}

type OptionalMap struct {
	Map map[string]string `json:"map"`
}

type OptionalArray struct {
	Array []string `json:"array"`
}

// MarshalJSON keeps an empty name, map or array.
func (p PluginParameter) MarshalJSON() ([]byte, error) {
	out := map[string]any{"name": p.Name}
	if p.Text != nil {
		out["string"] = *p.Text
	}
	if p.OptionalMap != nil {
		out["map"] = p.Map
		if p.Map == nil {
			out["map"] = map[string]string{}
		}
	}
	if p.OptionalArray != nil {
		out["array"] = p.Array
		if p.Array == nil {
			out["array"] = []string{}
		}
	}
	return json.Marshal(out)
}

type SyncPolicy struct {
	Automated                *Automated         `json:"automated,omitempty"`
	SyncOptions              []string           `json:"syncOptions,omitempty"`
	Retry                    *Retry             `json:"retry,omitempty"`
	ManagedNamespaceMetadata *NamespaceMetadata `json:"managedNamespaceMetadata,omitempty"`
}

// CreatesNamespace reports whether Argo CD creates the destination's namespace.
func (s *Spec) CreatesNamespace() bool {
	return s.SyncPolicy != nil && s.Destination.Namespace != "" && slices.Contains(s.SyncPolicy.SyncOptions, "CreateNamespace=true")
}

// Automated reports whether Argo CD syncs an Application automatically.
func (s *Spec) Automated() bool {
	return s.SyncPolicy != nil && s.SyncPolicy.Automated != nil && (s.SyncPolicy.Automated.Enabled == nil || *s.SyncPolicy.Automated.Enabled)
}

func (p *SyncPolicy) empty() bool {
	return p.Automated == nil && len(p.SyncOptions) == 0 && p.Retry == nil && p.ManagedNamespaceMetadata == nil
}

// Automated keeps what is false, as Argo CD does since 3.4.
type Automated struct {
	Prune      *bool `json:"prune,omitempty"`
	SelfHeal   *bool `json:"selfHeal,omitempty"`
	AllowEmpty *bool `json:"allowEmpty,omitempty"`
	Enabled    *bool `json:"enabled,omitempty"`
}

// Prunes reports whether what left the source is removed.
func (a *Automated) Prunes() bool { return a != nil && a.Prune != nil && *a.Prune }

// Heals reports whether changes in the cluster are reverted.
func (a *Automated) Heals() bool { return a != nil && a.SelfHeal != nil && *a.SelfHeal }

type Retry struct {
	Limit   int64    `json:"limit,omitempty"`
	Backoff *Backoff `json:"backoff,omitempty"`
	Refresh bool     `json:"refresh,omitempty"`
}

type Backoff struct {
	Duration    string `json:"duration,omitempty"`
	Factor      *int64 `json:"factor,omitempty"`
	MaxDuration string `json:"maxDuration,omitempty"`
}

type NamespaceMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type Difference struct {
	Group                 string   `json:"group,omitempty"`
	Kind                  string   `json:"kind"`
	Name                  string   `json:"name,omitempty"`
	Namespace             string   `json:"namespace,omitempty"`
	JSONPointers          []string `json:"jsonPointers,omitempty"`
	JQPathExpressions     []string `json:"jqPathExpressions,omitempty"`
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitempty"`
}

type Info struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type SourceHydrator struct {
	DrySource  DrySource  `json:"drySource"`
	SyncSource SyncSource `json:"syncSource"`
	HydrateTo  *HydrateTo `json:"hydrateTo,omitempty"`
}

type DrySource struct {
	RepoURL        string `json:"repoURL"`
	TargetRevision string `json:"targetRevision"`
	Path           string `json:"path"`

	Helm      *Helm      `json:"helm,omitempty" since:"3"`
	Kustomize *Kustomize `json:"kustomize,omitempty" since:"3"`
	Directory *Directory `json:"directory,omitempty" since:"3"`
	Plugin    *Plugin    `json:"plugin,omitempty" since:"3"`
}

type SyncSource struct {
	TargetBranch string `json:"targetBranch"`
	Path         string `json:"path"`
	RepoURL      string `json:"repoURL,omitempty" since:"5"` // empty for the dry source's
}

type HydrateTo struct {
	TargetBranch string `json:"targetBranch"`
}
