package ui

import "homelab/lab"

// RenderResult is `lab render -o json`.
type RenderResult struct {
	Lab          string                    `json:"lab"`
	Engine       string                    `json:"engine"`
	Applications List[RenderedApplication] `json:"applications"`
	Problems     List[RenderProblem]       `json:"problems"`  // why something is not rendered
	Revisions    List[ReadRevision]        `json:"revisions"` // what was read with --rev; empty without
}

// ReadRevision is a folder that was read at a commit.
type ReadRevision struct {
	Folder   string `json:"folder"`   // of a mounted repository, as in cluster.yaml; "." for the estate
	Revision string `json:"revision"` // as given; empty for what is on disk
	Commit   string `json:"commit"`   // empty for what is on disk
}

// RenderProblem is the reason that objects are missing.
type RenderProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Message string `json:"message"`
	Cure    string `json:"cure"`
}

// RenderProblems converts problems.
func RenderProblems(problems lab.Problems) List[RenderProblem] {
	var list List[RenderProblem]
	for _, p := range problems {
		list = append(list, RenderProblem{p.File, p.Line, p.Message, p.Cure})
	}
	return list
}

// RenderedApplication is an application in RenderResult.
type RenderedApplication struct {
	Name      string               `json:"name"`
	Addon     string               `json:"addon"`
	Cluster   string               `json:"cluster"`
	Namespace string               `json:"namespace"`
	LeftOut   string               `json:"left_out"` // why lab does not wait for it; empty if it does
	File      string               `json:"file"`
	Line      int                  `json:"line"`
	Manifest  Raw                  `json:"manifest"` // the Application or the Kustomization; {} if it is unknown
	Objects   List[RenderedObject] `json:"objects"`
	Complete  bool                 `json:"complete"` // false if objects are missing: see problems
}

// RenderedObject is an object in RenderedApplication.
type RenderedObject struct {
	Cluster string `json:"cluster"` // that gets it
	Release string `json:"release"` // HelmRelease, NAMESPACE/NAME; empty for others
	File    string `json:"file"`
	Line    int    `json:"line"` // 0 if unknown
	Hook    string `json:"hook"` // phases, as written; empty for none
	Wave    int    `json:"wave"`
	Object  Raw    `json:"object"`
}

// Raw is a JSON document of others: an object of Kubernetes. An empty one is {}.
type Raw string

// MarshalJSON implements json.Marshaler.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("{}"), nil
	}
	return []byte(r), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw) UnmarshalJSON(text []byte) error {
	*r = Raw(text)
	return nil
}
