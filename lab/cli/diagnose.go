package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
)

func (p *program) diagnoseCommand() *cli.Command {
	return &cli.Command{
		Name:      "diagnose",
		Usage:     "write everything worth reading about the lab to one archive",
		ArgsUsage: "[FILE]",
		Description: "Checks of the machine, containers and their logs, nodes, pods, events, Applications and ApplicationSets. No Secret, password or token is in it.\n\n" +
			examples("lab diagnose", "lab diagnose /tmp/lab.tar.gz"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag},
		Action: func(c *cli.Context) error {
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			file := c.Args().First()
			if file == "" {
				file = "lab-" + s.name + "-diagnose.tar.gz"
			}
			if err := s.diagnose(c.Context, file); err != nil {
				return err
			}
			if p.ui.WantsJSON() {
				return p.ui.JSON(ui.DiagnoseResult{File: file})
			}
			p.ui.Print(file)
			return nil
		},
	}
}

// diagnoseLimit bounds the whole collection: what does not answer in time is left out and said.
const diagnoseLimit = 2 * time.Minute

// diagnosis collects files; what could not be had is written down instead.
type diagnosis struct {
	*session
	ctx   context.Context
	files []diagnosisFile
}

type diagnosisFile struct {
	name string
	data []byte
}

func (s *session) diagnose(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, diagnoseLimit)
	defer cancel()
	d := &diagnosis{session: s, ctx: ctx}
	w, err := s.openWorld(nil, doctor.Traits{})
	if err != nil {
		return err
	}
	d.json("version.json", version(), nil)
	d.json("lab.json", s.record, nil)
	d.json("doctor.json", s.doctor(0, false).Run(ctx), nil)
	if est, err := s.load(); err != nil {
		d.add("estate.txt", nil, err)
	} else {
		w.Estate = est
		st, err := w.Status(ctx)
		d.json("status.json", w.statusResult(st), err)
	}
	d.containers(w)
	infos, err := s.kubeconfigs(nil)
	if err != nil {
		d.add("clusters.txt", nil, err)
	}
	for _, k := range infos.Clusters {
		d.cluster(w, k.Name)
	}
	return d.write(file)
}

func (d *diagnosis) add(name string, data []byte, err error) {
	if err != nil {
		data = append(data, "\nnot to be had: "+err.Error()+"\n"...)
	}
	d.files = append(d.files, diagnosisFile{name, data})
}

func (d *diagnosis) json(name string, v any, err error) {
	data, encodeErr := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = encodeErr
	}
	d.add(name, data, err)
}

// containers are those in the lab's network: nodes with their journals, and the forge with its log.
func (d *diagnosis) containers(w *world) {
	list, err := w.docker.Containers(d.ctx, "network="+lab.NetworkName(d.name))
	d.json("containers.json", list, err)
	for _, c := range list {
		out, err := w.docker.Output(d.ctx, nil, "logs", "--tail", "2000", c.Name)
		d.add("logs/"+c.Name+".log", out, err)
		if c.Running && c.Name != lab.ForgeName(d.name) {
			out, err = w.docker.Exec(d.ctx, c.Name, nil, "journalctl", "--no-pager", "--lines", "2000", "--unit", "kubelet", "--unit", "containerd")
			d.add("logs/"+c.Name+".journal", out, err)
		}
	}
}

func (d *diagnosis) cluster(w *world, name string) {
	cfg, err := w.kind.RESTConfig(name)
	if err != nil {
		d.add(path.Join(name, "error.txt"), nil, err)
		return
	}
	cfg.Timeout = 20 * time.Second
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		d.add(path.Join(name, "error.txt"), nil, err)
		return
	}
	for _, r := range append([]schema.GroupVersionResource{
		{Version: "v1", Resource: "nodes"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "events"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
	}, w.Definition.Kinds...) {
		list, err := client.Resource(r).List(d.ctx, metav1.ListOptions{})
		if err != nil && slices.Contains(w.Definition.Kinds, r) {
			continue // only the hub has these
		}
		d.json(path.Join(name, r.Resource+".json"), list, err)
	}
	d.podLogs(w, name)
}

// podLogs are those of the engine, and of every pod that is not as it should be.
func (d *diagnosis) podLogs(w *world, cluster string) {
	cfg, err := w.kind.RESTConfig(cluster)
	if err != nil {
		return
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return
	}
	pods, err := client.CoreV1().Pods("").List(d.ctx, metav1.ListOptions{})
	if err != nil {
		d.add(path.Join(cluster, "pod-logs.txt"), nil, err)
		return
	}
	lines := int64(1000)
	for _, pod := range pods.Items {
		if pod.Namespace != w.Definition.Namespace && steady(pod) {
			continue
		}
		for _, container := range pod.Spec.Containers {
			out, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name, TailLines: &lines}).DoRaw(d.ctx)
			d.add(path.Join(cluster, "pods", pod.Namespace, pod.Name, container.Name+".log"), out, err)
		}
	}
}

// steady reports whether a pod runs, is ready, and never had to be started again.
func steady(pod corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if !c.Ready || c.RestartCount > 0 {
			return false
		}
	}
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded
}

// write puts the files into one archive, in which nothing of the lab's credentials may stand.
func (d *diagnosis) write(file string) error {
	creds, err := d.dir.Credentials()
	if err != nil {
		return err
	}
	hide := strings.NewReplacer(creds.ForgePassword, "REDACTED", creds.EnginePassword, "REDACTED", creds.EngineHash, "REDACTED", creds.WebhookSecret, "REDACTED")
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, f := range d.files {
		data := []byte(hide.Replace(string(f.data)))
		h := &tar.Header{Name: path.Join("lab-"+d.name, f.name), Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := tw.Write(data); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	return nil
}
