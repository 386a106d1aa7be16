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

// The types in this file are the JSON contract, documented in docs/json.md: keys are added, never renamed or removed;
// all keys are always present; empty lists are []. Seconds have three decimals; times are RFC 3339 in UTC.

// List is a slice that is encoded as [] when nil.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return compact([]T(l))
}

// compact encodes without escaping <, > and &, for readability.
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

// Seconds rounds a duration to three decimals.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// Status is `lab status -o json`.
type Status struct {
	Lab          string                `json:"lab"`
	Engine       string                `json:"engine"`   // as in an estate; empty if none is installed
	Revision     string                `json:"revision"` // commit that the engine has compared
	Clusters     List[StatusCluster]   `json:"clusters"`
	Applications List[lab.Application] `json:"applications"`
	Parts        List[StatusPart]      `json:"parts"` // optional ones that the estate has, or that still exist
	Endpoints    List[Endpoint]        `json:"endpoints"`
	Off          List[string]          `json:"off"`    // parts that are stopped or do not answer
	Starts       string                `json:"starts"` // command that starts it; empty if Off is
	OnlyInForge  OnlyInForge           `json:"only_in_forge"`
	Untrusted    List[Thing]           `json:"untrusted"` // access that the estate needs and the user has not agreed to
}

// Thing is something outside of the lab that an estate asks for.
type Thing struct {
	Kind    string `json:"kind"`    // mount, listen, image, patch, cluster, plugin, folder or host
	Cluster string `json:"cluster"` // that gets it; empty for the lab
	What    string `json:"what"`
	Gives   string `json:"gives"` // what the estate can do with it
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// StatusCluster is a cluster in Status.
type StatusCluster struct {
	Name        string `json:"name"`
	Role        string `json:"role"`
	Environment string `json:"environment"` // may be empty for a hub
	Kubernetes  string `json:"kubernetes"`  // empty if the API does not answer
	Ready       bool   `json:"ready"`
	State       string `json:"state"` // absent, stopped, paused, unreachable, not ready or ready; "1 of 3 nodes stopped"

	CertificatesEnd string `json:"certificates_end"` // empty if unknown
	Ending          string `json:"-"`                // that they have ended, or soon will, and the cure
}

// StatusPart is an optional part of the lab in Status.
type StatusPart struct {
	Name  string `json:"name"`
	State string `json:"state"` // absent, stopped, not connected, unreachable or ready
}

// Endpoint is an address of the lab.
type Endpoint struct {
	Name       string `json:"name"`
	URL        string `json:"url"`
	User       string `json:"user"` // whose password `lab creds NAME` prints; may be empty
	PasswordBy string `json:"-"`    // command that prints the password
}

// StatusClusters converts observed clusters.
func StatusClusters(states []lab.ClusterState) List[StatusCluster] {
	var list List[StatusCluster]
	for _, s := range states {
		ending := s.Ending(time.Now())
		if ending != "" {
			ending += "; " + s.EndingCure()
		}
		list = append(list, StatusCluster{
			Name: s.Name, Role: string(s.Role), Environment: s.Env, Kubernetes: s.Kubernetes, Ready: s.Ready, State: s.Phase(), Ending: ending,
			CertificatesEnd: certificatesEnd(s),
		})
	}
	return list
}

func certificatesEnd(s lab.ClusterState) string {
	if s.CertificatesEnd.IsZero() {
		return ""
	}
	return s.CertificatesEnd.UTC().Format(time.RFC3339)
}

// UpResult is `lab up -o json`; `changed` is empty if nothing was done.
type UpResult struct {
	Lab     string           `json:"lab"`
	Changed List[string]     `json:"changed"` // titles of the steps that changed something: "cluster dev", "bridge prod"
	Seconds float64          `json:"seconds"`
	Steps   List[StepResult] `json:"steps"`
	Upgrade Upgrade          `json:"upgrade"`
}

// Upgrade is what another version of the engine changed, in UpResult.
type Upgrade struct {
	From      string       `json:"from"` // "3.2.11"; empty if the engine kept its version
	To        string       `json:"to"`
	Objects   int          `json:"objects"`     // tracked by the engine before
	Pods      int          `json:"pods"`        // outside of the engine before
	OutOfSync List[string] `json:"out_of_sync"` // applications that were in sync and healthy
	Gone      List[string] `json:"gone"`        // applications
	New       List[string] `json:"new"`         // applications
	Replaced  List[string] `json:"replaced"`    // objects: "dev: Deployment web/web"
	Deleted   List[string] `json:"deleted"`
	Orphaned  List[string] `json:"orphaned"`  // objects that no application tracks any more
	Retracked List[string] `json:"retracked"` // objects tracked in another way
	Restarted List[string] `json:"restarted"` // pods
	Unknown   List[string] `json:"unknown"`   // clusters that did not answer: "dev: its error"
}

// RehearseResult is `lab rehearse upgrade -o json`.
type RehearseResult struct {
	Lab      string  `json:"lab"`
	Snapshot string  `json:"snapshot"` // with --keep
	Seconds  float64 `json:"seconds"`
	Upgrade  Upgrade `json:"upgrade"` // from and to are equal if the engine kept its version, and empty if there was nothing to do
}

// StepResult is a step in UpResult.
type StepResult struct {
	Name    string  `json:"name"`
	Cluster string  `json:"cluster"` // empty for a step without cluster
	Seconds float64 `json:"seconds"`
	Result  string  `json:"result"`
}

// NewUpResult returns the result of `lab up`.
func NewUpResult(labName string, changed []string, took time.Duration, steps []lab.StepResult, upgrade Upgrade) UpResult {
	return UpResult{Lab: labName, Changed: changed, Seconds: Seconds(took), Steps: stepResults(steps), Upgrade: upgrade}
}

func stepResults(steps []lab.StepResult) List[StepResult] {
	var list List[StepResult]
	for _, s := range steps {
		list = append(list, StepResult{Name: s.Name, Cluster: s.Cluster, Seconds: math.Round(s.Seconds*1000) / 1000, Result: s.Result})
	}
	return list
}

// DownResult is `lab down -o json`; `removed` is empty if there was nothing.
type DownResult struct {
	Lab     string       `json:"lab"`
	Removed List[string] `json:"removed"` // "cluster dev", "container lab-homelab-forge", "network lab-homelab"
	Kept    List[string] `json:"kept"`    // names of snapshots
	Stays   List[string] `json:"stays"`   // in clusters that outlive the lab: "cluster edge: namespace shop stays, with configmap own"
	Seconds float64      `json:"seconds"`
}

// Snapshot is a snapshot of a lab.
type Snapshot struct {
	Name     string       `json:"name"`
	Taken    string       `json:"taken"`
	Clusters List[string] `json:"clusters"`
	Bytes    int64        `json:"bytes"`  // on disk, without data shared with the lab
	Pruned   List[string] `json:"pruned"` // removed images; it cannot be restored without them

	Unreadable string `json:"unreadable"` // why its metadata cannot be read, so that it cannot be restored; empty if it can
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

// ErrorResult is the output of a failed command with -o json.
type ErrorResult struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is the content of ErrorResult.
type ErrorBody struct {
	Code     string             `json:"code"` // stable
	Message  string             `json:"message"`
	Cure     string             `json:"cure"`
	Details  List[string]       `json:"details"` // further lines for users; wording may change
	Problems List[ErrorProblem] `json:"problems"`
}

// ErrorProblem is a problem in a file. Line and column count from 1; 0 is unknown.
type ErrorProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Rule    string `json:"rule"` // as of lab lint; empty for none
	Message string `json:"message"`
	Cure    string `json:"cure"`
}

// DoctorResult is `lab doctor -o json`.
type DoctorResult struct {
	Checks   List[DoctorCheck] `json:"checks"`
	Failures int               `json:"failures"`
	Warnings int               `json:"warnings"`
}

// DoctorCheck is a check; status is ok, warning, failure or skipped.
type DoctorCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Cure   string `json:"cure"`
}

// NewDoctorResult converts a report.
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

// DoctorUndoResult is `lab doctor --undo -o json`.
type DoctorUndoResult struct {
	Changes List[DoctorUndone] `json:"changes"` // the last one first
}

// DoctorUndone is a change to the machine, reverted or left.
type DoctorUndone struct {
	What   string    `json:"what"` // path, kernel setting or names of packages
	When   time.Time `json:"when"` // zero if unknown
	Undone bool      `json:"undone"`
	Note   string    `json:"note"` // why it was left, or how it was reverted
}

// DiagnoseResult is `lab diagnose -o json`.
type DiagnoseResult struct {
	File string `json:"file"` // path of the archive
}

// BridgeResult is `lab bridge show -o json`.
type BridgeResult struct {
	Lab      string              `json:"lab"`
	Clusters List[BridgeCluster] `json:"clusters"`
}

// BridgeCluster is the registration of a cluster.
type BridgeCluster struct {
	Name        string            `json:"name"`
	Server      string            `json:"server"`
	Labels      List[BridgeValue] `json:"labels"`      // sorted by key
	Annotations List[BridgeValue] `json:"annotations"` // sorted by key
}

// BridgeValue is a label or annotation with its origin; file may be empty.
type BridgeValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	File   string `json:"file"`
	Line   int    `json:"line"`
}

// NewBridgeResult converts registrations.
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

// KubeconfigFile is a cluster's kubeconfig.
type KubeconfigFile struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // absolute
	Context string `json:"context"`
}

// CredsResult is `lab creds -o json`; `lab creds SERVICE -o json` is a Credential.
type CredsResult struct {
	Credentials List[Credential] `json:"credentials"`
}

// Credential is the login of a service.
type Credential struct {
	Service  string `json:"service"` // an engine, or forge
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// InitResult is `lab init DIR -o json`.
type InitResult struct {
	Estate string    `json:"estate"` // absolute path of the created folder
	Draft  DraftInfo `json:"draft"`  // with empty lists unless --from is given
}
