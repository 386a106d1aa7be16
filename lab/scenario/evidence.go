package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab/redact"
)

// Bounds of the evidence of a failed step.
const (
	evidenceTimeout = 15 * time.Second
	maxNamespaces   = 3
	maxContainers   = 4 // of a namespace, those first that are not ready
	maxEvents       = 20
	maxLogLines     = 30
	maxLogBytes     = 16 << 10
	maxLine         = 300 // characters
)

// Evidence is what a namespace of a failed step's subjects says: its events, or a container's log. Secrets are masked.
type Evidence struct {
	Cluster   string
	Namespace string
	Source    string // events, or "log of POD/CONTAINER"
	Lines     []string
}

// evidence collects what the namespaces of a failed step's subjects say. What does not answer is left out: the failure is reported in any case.
func (p *playing) evidence(ctx context.Context) []Evidence {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evidenceTimeout)
	defer cancel()
	var list []Evidence
	for _, place := range p.recorder.places(p.about) {
		if client, err := p.world.Clusters.Client(place.Cluster); err == nil {
			w := witness{ctx: ctx, client: client, place: place, mask: redact.New()}
			list = append(list, w.collect()...)
		}
	}
	return list
}

// places returns the namespaces of subjects, as EventsIn.
func (r *Recorder) places(subjects []Subject) []Subject {
	v := r.view(r.now())
	var list []Subject
	for _, subject := range subjects {
		for _, s := range v.Of(subject) {
			namespace := s.Namespace
			if a := v[s].Application; a != nil {
				namespace = a.Namespace
			}
			place := EventsIn(s.Cluster, namespace)
			if namespace != "" && !unnamed(s) && len(list) < maxNamespaces && !slices.Contains(list, place) {
				list = append(list, place)
			}
		}
	}
	return list
}

// witness reads one namespace.
type witness struct {
	ctx    context.Context
	client Client
	place  Subject
	mask   *redact.Redactor
}

func (w witness) collect() []Evidence {
	secrets, err := w.list("Secret")
	if err != nil { // nothing could be masked
		return []Evidence{{w.place.Cluster, w.place.Namespace, "events", []string{"left out with all logs, as Secrets cannot be read to mask them: " + err.Error()}}}
	}
	for _, secret := range secrets {
		data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
		for key, value := range data {
			if text, err := base64.StdEncoding.DecodeString(value); err == nil {
				w.mask.Secret(key, string(text))
			}
		}
	}
	var list []Evidence
	if events := w.events(); len(events) > 0 {
		list = append(list, Evidence{w.place.Cluster, w.place.Namespace, "events", events})
	}
	return append(list, w.logs()...)
}

func (w witness) list(kind string) ([]unstructured.Unstructured, error) {
	resource, err := w.client.Resource(Subject{APIVersion: "v1", Kind: kind, Namespace: w.place.Namespace})
	if err != nil {
		return nil, err
	}
	var list *unstructured.UnstructuredList
	err = answered(w.ctx, func(ctx context.Context) (err error) {
		list, err = resource.List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (w witness) events() []string {
	all, _ := w.list("Event") // without an answer, the failure is reported alone
	slices.SortStableFunc(all, func(a, b unstructured.Unstructured) int { return happened(&a).Compare(happened(&b)) })
	var lines []string
	for _, u := range all[max(0, len(all)-maxEvents):] {
		about, _ := u.Object["involvedObject"].(map[string]any)
		line := fmt.Sprintf("%v %s/%v: %v", u.Object["reason"], strings.ToLower(fmt.Sprint(about["kind"])), about["name"], u.Object["message"])
		if u.Object["type"] == "Warning" {
			line = "warning: " + line
		}
		if at := happened(&u); !at.IsZero() {
			line = at.UTC().Format("15:04:05 ") + line
		}
		lines = append(lines, w.lines([]byte(line))...)
	}
	return lines
}

func (w witness) logs() []Evidence {
	if w.client.Logs == nil {
		return nil
	}
	var containers []container
	pods, _ := w.list("Pod")
	for _, u := range pods {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod) == nil {
			containers = append(containers, containersOf(pod)...)
		}
	}
	slices.SortStableFunc(containers, func(a, b container) int { return cmp.Compare(a.rank, b.rank) })
	var list []Evidence
	for _, c := range containers[:min(len(containers), maxContainers)] {
		tail, limit := int64(maxLogLines), int64(maxLogBytes)
		var data []byte
		err := answered(w.ctx, func(ctx context.Context) (err error) {
			data, err = w.client.Logs(ctx, w.place.Namespace, c.pod, &corev1.PodLogOptions{Container: c.name, Previous: c.ended, TailLines: &tail, LimitBytes: &limit})
			return err
		})
		lines := w.lines(data)
		if err != nil || len(lines) == 0 {
			continue
		}
		list = append(list, Evidence{w.place.Cluster, w.place.Namespace, "log of " + c.pod + "/" + c.name, lines[max(0, len(lines)-maxLogLines):]})
	}
	return list
}

// container is a container with a log. Those that are not ready come first.
type container struct {
	pod, name string
	ended     bool // waits to be restarted: the previous one has the log
	rank      int
}

func containersOf(pod corev1.Pod) []container {
	var list []container
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		c := container{pod: pod.Name, name: s.Name, ended: s.State.Waiting != nil && s.RestartCount > 0}
		if s.Ready || s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 {
			c.rank = 1
		}
		if s.State.Waiting == nil || c.ended {
			list = append(list, c)
		}
	}
	return list
}

// lines splits a text into bounded lines without secrets.
func (w witness) lines(text []byte) []string {
	var lines []string
	for line := range bytes.Lines(w.mask.File("text", text)) {
		r := []rune(strings.TrimRight(string(line), "\r\n"))
		if len(r) > maxLine {
			r = append(r[:maxLine-1], '…')
		}
		if len(r) > 0 {
			lines = append(lines, string(r))
		}
	}
	return lines
}
