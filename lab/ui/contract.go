package ui

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"homelab/lab"
)

// The types of this file are the JSON contract, documented in docs/json.md: keys are added, never renamed nor removed; every key is always there; a
// list without elements is []. Seconds have three decimals; times are RFC 3339 in UTC.

// List is a slice that is [] in JSON when it is nil, never null.
type List[T any] []T

// MarshalJSON writes the list.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return compact([]T(l))
}

// compact encodes without escaping <, > and &: results are not for HTML, and "a -> b" is to be read.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Seconds are what results tell of a span of time: three decimals at most.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// Status is `lab status -o json`.
type Status struct {
	Lab          string                `json:"lab"`
	Engine       string                `json:"engine"`   // as an estate names it; empty where none is installed
	Revision     string                `json:"revision"` // commit that the engine has compared with
	Clusters     List[StatusCluster]   `json:"clusters"`
	Applications List[lab.Application] `json:"applications"`
	Endpoints    List[Endpoint]        `json:"endpoints"`
	Off          List[string]          `json:"off"`    // what exists and does not run or answer
	Starts       string                `json:"starts"` // the command that starts it; empty where nothing is off
}

// StatusCluster is one cluster in Status.
type StatusCluster struct {
	Name        string `json:"name"`
	Role        string `json:"role"`
	Environment string `json:"environment"` // empty for a hub that belongs to none
	Kubernetes  string `json:"kubernetes"`  // empty when the API does not answer
	Ready       bool   `json:"ready"`
	State       string `json:"state"` // absent, stopped, paused, unreachable, not ready or ready; "1 of 3 nodes stopped"
}

// Endpoint is something of the lab that a user can reach.
type Endpoint struct {
	Name       string `json:"name"`
	URL        string `json:"url"`
	User       string `json:"user"` // whose password `lab creds NAME` prints; empty where none is needed
	PasswordBy string `json:"-"`    // command that prints the password
}

// StatusClusters turns what was seen of clusters into their contract.
func StatusClusters(states []lab.ClusterState) List[StatusCluster] {
	var list List[StatusCluster]
	for _, s := range states {
		list = append(list, StatusCluster{
			Name: s.Name, Role: string(s.Role), Environment: s.Env, Kubernetes: s.Kubernetes, Ready: s.Ready, State: s.Standing(),
		})
	}
	return list
}

// UpResult is `lab up -o json`; `changed` is empty when nothing was done.
type UpResult struct {
	Lab     string           `json:"lab"`
	Changed List[string]     `json:"changed"` // titles of the steps that changed something: "cluster dev", "bridge prod"
	Seconds float64          `json:"seconds"`
	Steps   List[StepResult] `json:"steps"`
}

// StepResult is one step in UpResult.
type StepResult struct {
	Name    string  `json:"name"`
	Cluster string  `json:"cluster"` // empty for a step that is about none
	Seconds float64 `json:"seconds"`
	Result  string  `json:"result"`
}

// NewUpResult puts the result of `lab up` together.
func NewUpResult(labName string, changed []string, took time.Duration, steps []lab.StepResult) UpResult {
	return UpResult{Lab: labName, Changed: changed, Seconds: Seconds(took), Steps: stepResults(steps)}
}

func stepResults(steps []lab.StepResult) List[StepResult] {
	var list List[StepResult]
	for _, s := range steps {
		list = append(list, StepResult{Name: s.Name, Cluster: s.Cluster, Seconds: math.Round(s.Seconds*1000) / 1000, Result: s.Result})
	}
	return list
}

// PlanResult is `lab up --dry-run -o json`.
type PlanResult struct {
	Lab   string         `json:"lab"`
	Steps List[PlanStep] `json:"steps"` // each after those that it needs
}

// PlanStep is one step in PlanResult.
type PlanStep struct {
	ID      string       `json:"id"`      // "engine", "cluster/hub"
	Name    string       `json:"name"`    // as in StepResult
	Cluster string       `json:"cluster"` // empty for a step that is about none
	Action  string       `json:"action"`  // none, create, update, repair, recreate or delete
	Reason  string       `json:"reason"`
	Loses   string       `json:"loses"` // what the step destroys for good; empty when nothing
	Needs   List[string] `json:"needs"` // ids of the steps that end before it starts
}

// NewPlanResult turns a plan into its contract.
func NewPlanResult(labName string, steps []lab.Step) PlanResult {
	res := PlanResult{Lab: labName}
	for _, s := range steps {
		res.Steps = append(res.Steps, PlanStep{ID: s.ID, Name: s.Kind, Cluster: s.Cluster, Action: string(s.Action), Reason: s.Reason, Loses: s.Loses, Needs: s.Needs})
	}
	return res
}

// DownResult is `lab down -o json`; `removed` is empty when there was nothing.
type DownResult struct {
	Lab     string       `json:"lab"`
	Removed List[string] `json:"removed"` // "cluster dev", "container lab-homelab-forge", "network lab-homelab"
	Kept    List[string] `json:"kept"`    // names of snapshots
	Stays   List[string] `json:"stays"`   // in clusters that outlive the lab: "cluster edge: namespace shop stays, with configmap own"
	Seconds float64      `json:"seconds"`
}

// Snapshot is one snapshot of a lab.
type Snapshot struct {
	Name     string       `json:"name"`
	Taken    string       `json:"taken"`
	Clusters List[string] `json:"clusters"`
	Bytes    int64        `json:"bytes"` // on disk, beyond what it shares with the lab
}

// SnapshotSaveResult is `lab snapshot save -o json`.
type SnapshotSaveResult struct {
	Lab      string   `json:"lab"`
	Snapshot Snapshot `json:"snapshot"`
	Seconds  float64  `json:"seconds"`
}

// SnapshotListResult is `lab snapshot ls -o json`, newest first.
type SnapshotListResult struct {
	Lab       string         `json:"lab"`
	Snapshots List[Snapshot] `json:"snapshots"`
}

// SnapshotRemoveResult is `lab snapshot rm -o json`.
type SnapshotRemoveResult struct {
	Lab     string       `json:"lab"`
	Removed List[string] `json:"removed"`
}

// ErrorResult is what every command writes with -o json when it fails.
type ErrorResult struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is the content of ErrorResult.
type ErrorBody struct {
	Code     string             `json:"code"` // stable word
	Message  string             `json:"message"`
	Cure     string             `json:"cure"`
	Details  List[string]       `json:"details"` // further lines for a user; their wording may change
	Problems List[ErrorProblem] `json:"problems"`
}

// ErrorProblem is one fault in a file. Line and column count from 1; 0 means unknown.
type ErrorProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Cure    string `json:"cure"`
}

// DoctorResult is `lab doctor -o json`.
type DoctorResult struct {
	Checks   List[DoctorCheck] `json:"checks"`
	Failures int               `json:"failures"`
	Warnings int               `json:"warnings"`
}

// DoctorCheck is one check: status is ok, warning, failure or skipped.
type DoctorCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Cure   string `json:"cure"`
}

// NewDoctorResult turns the rows of a report into their contract.
func NewDoctorResult(rows []Row) DoctorResult {
	var res DoctorResult
	for _, r := range rows {
		status := "ok"
		switch r.Symbol {
		case SymbolFailed:
			status = "failure"
			res.Failures++
		case SymbolWarning:
			status = "warning"
			res.Warnings++
		case SymbolWaiting:
			status = "skipped"
		}
		res.Checks = append(res.Checks, DoctorCheck{Name: r.Title, Status: status, Found: r.Text, Cure: r.Cure})
	}
	return res
}

// DiagnoseResult is `lab diagnose -o json`.
type DiagnoseResult struct {
	File string `json:"file"` // the archive that was written
}

// BundleResult is `lab bundle ls|build|save|load -o json`.
type BundleResult struct {
	Items List[BundleItem] `json:"items"`
}

// BundleItem is one image or chart.
type BundleItem struct {
	Kind   string `json:"kind"`   // image or chart
	Name   string `json:"name"`   // component or chart
	Ref    string `json:"ref"`    // image reference; for a chart its version
	Digest string `json:"digest"` // empty while not at hand
	Bytes  int64  `json:"bytes"`  // of the archive on disk
	Origin string `json:"origin"` // engine, bundle, registry or source: where it came from or would come from
	AtHand bool   `json:"at_hand"`
}

// BridgeResult is `lab bridge show -o json`.
type BridgeResult struct {
	Lab      string              `json:"lab"`
	Clusters List[BridgeCluster] `json:"clusters"`
}

// BridgeCluster is what one cluster's registration carries.
type BridgeCluster struct {
	Name        string            `json:"name"`
	Server      string            `json:"server"`
	Labels      List[BridgeValue] `json:"labels"`      // sorted by key
	Annotations List[BridgeValue] `json:"annotations"` // sorted by key
}

// BridgeValue is one label or annotation with where it came from; file is empty for what is written in none.
type BridgeValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	File   string `json:"file"`
	Line   int    `json:"line"`
}

// NewBridgeResult turns registrations into their contract.
func NewBridgeResult(labName string, registrations []lab.Registration) BridgeResult {
	res := BridgeResult{Lab: labName}
	for _, r := range registrations {
		res.Clusters = append(res.Clusters, BridgeCluster{
			Name: r.Cluster, Server: r.Server, Labels: bridgeValues(r.Labels), Annotations: bridgeValues(r.Annotations),
		})
	}
	return res
}

func bridgeValues(m map[string]lab.Value) List[BridgeValue] {
	var list List[BridgeValue]
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		list = append(list, BridgeValue{Key: key, Value: v.Value, Origin: v.Origin, File: v.At.File, Line: v.At.Line})
	}
	return list
}

// LogResult is `lab git log -o json`, newest first.
type LogResult struct {
	Commits List[LogCommit] `json:"commits"`
}

// LogCommit is one commit in the forge.
type LogCommit struct {
	Commit  string    `json:"commit"` // full hash
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"` // subject
}

// PushResult is `lab git push -o json`.
type PushResult struct {
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"` // false when the forge held this tree already
}

// PullResult is `lab git pull -o json`.
type PullResult struct {
	Commit    string          `json:"commit"`    // the forge's, which the working tree now has; empty where it has none
	DryRun    bool            `json:"dry_run"`   // nothing was written
	Commits   List[LogCommit] `json:"commits"`   // that were brought, newest first
	Files     List[PullFile]  `json:"files"`     // sorted
	Committed string          `json:"committed"` // commit in the repository around the estate; empty for none
	Reason    string          `json:"reason"`    // why there is none; empty where there is no repository either
	Next      string          `json:"next"`      // what to type then; may be empty
}

// PullFile is what a pull did to one file.
type PullFile struct {
	Path   string    `json:"path"`
	Did    string    `json:"did"`    // took, merged, conflict or kept
	Note   string    `json:"note"`   // why, where that is not plain
	Lines  List[int] `json:"lines"`  // at which conflicts begin
	Beside string    `json:"beside"` // where the forge's file is, which could not take its place
}

// URLResult is `lab git url -o json`.
type URLResult struct {
	URL string `json:"url"`
}

// KubeconfigResult is `lab kubeconfig -o json`.
type KubeconfigResult struct {
	Lab        string               `json:"lab"`
	Kubeconfig string               `json:"kubeconfig"` // a value for KUBECONFIG
	Clusters   List[KubeconfigFile] `json:"clusters"`
}

// KubeconfigFile is one cluster's kubeconfig.
type KubeconfigFile struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // absolute
	Context string `json:"context"`
}

// CredsResult is `lab creds -o json`; `lab creds SERVICE -o json` is one Credential.
type CredsResult struct {
	Credentials List[Credential] `json:"credentials"`
}

// Credential opens one service of the lab.
type Credential struct {
	Service  string `json:"service"` // an engine, or forge
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// InitResult is `lab init DIR -o json`.
type InitResult struct {
	Estate string    `json:"estate"` // absolute path of the folder that was written
	Draft  DraftInfo `json:"draft"`  // of empty lists without --from
}

// VersionResult is `lab version -o json`.
type VersionResult struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // commit that lab was built from, where known
	Go       string `json:"go"`
	Kind     string `json:"kind"`
	Helm     string `json:"helm"`
}
