package verb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/scenario"
)

// inside sends the request with the node's curl, in the network of a pod: the pod's image needs none.
func (q *request) inside(ctx context.Context, c *scenario.Call) map[string]any {
	log, err := q.curl(ctx, c)
	if err == nil {
		var answer map[string]any
		if answer, err = parseAnswer(log); err == nil {
			return answer
		}
	}
	return map[string]any{"error": err.Error()}
}

func (q *request) curl(ctx context.Context, c *scenario.Call) ([]byte, error) {
	if c.Inside == nil {
		return nil, errNoMachines
	}
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	client, err := c.Clusters.Client(q.From.Cluster)
	if err != nil {
		return nil, err
	}
	node, pod, err := q.pod(ctx, client)
	if err != nil {
		return nil, err
	}
	address, err := q.address(ctx, client)
	if err != nil {
		return nil, err
	}
	return c.Inside(ctx, node, q.From.Namespace, pod, q.command(address))
}

// pod returns a running pod and its node.
func (q *request) pod(ctx context.Context, client scenario.Client) (node, pod string, err error) {
	pods, err := client.Resource(scenario.Subject{APIVersion: "v1", Kind: "Pod", Namespace: q.From.Namespace})
	if err != nil {
		return "", "", err
	}
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", err
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, o := range list.Items {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if phase == "Running" && strings.HasPrefix(o.GetName(), q.From.Pod) && o.GetDeletionTimestamp() == nil {
			node, _, _ = unstructured.NestedString(o.Object, "spec", "nodeName")
			return node, o.GetName(), nil
		}
	}
	return "", "", fmt.Errorf("no pod %s* runs in namespace %s of %s", q.From.Pod, q.From.Namespace, q.From.Cluster)
}

// address resolves a Service's name as the cluster's DNS does, which the node does not ask. Other names are "".
func (q *request) address(ctx context.Context, client scenario.Client) (string, error) {
	u, err := url.Parse(q.URL)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return "", err
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(u.Hostname(), ".cluster.local"), ".svc"), ".")
	s := scenario.Subject{APIVersion: "v1", Kind: "Service", Namespace: q.From.Namespace, Name: parts[0]}
	switch len(parts) {
	case 1:
	case 2:
		s.Namespace = parts[1]
	default:
		return "", nil
	}
	r, err := client.Resource(s)
	if err != nil {
		return "", err
	}
	o, err := get(ctx, r, s.Name)
	if err != nil || o == nil {
		return "", err
	}
	ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP")
	if net.ParseIP(ip) == nil {
		return "", fmt.Errorf("service %s in %s has no address of its own", s.Name, s.Namespace)
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Hostname() + ":" + port + ":" + ip, nil
}

func (q *request) command(address string) []string {
	command := []string{"curl", "--silent", "--show-error", "--include", "--raw", "--http1.1", "--max-time", strconv.Itoa(int(requestTimeout.Seconds())), "--noproxy", "*"}
	if address != "" {
		command = append(command, "--resolve", address)
	}
	if q.method() == "HEAD" {
		command = append(command, "--head")
	} else {
		command = append(command, "--request", q.method())
	}
	for _, header := range slices.Sorted(maps.Keys(q.Headers)) {
		command = append(command, "--header", header+": "+q.Headers[header])
	}
	if q.Body != "" {
		command = append(command, "--header", "Expect:", "--data-raw", q.Body)
	}
	return append(command, "--", q.URL)
}
