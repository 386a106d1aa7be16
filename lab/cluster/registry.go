package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
)

// Since Kubernetes 1.35, kubelet asks an image's own registry again once its content was also pulled with credentials from another one. What lab loads into nodes
// has a registry that may not answer, and the same content may be pushed to the lab's registry under another name.
const neverVerifyPatch = `kind: KubeletConfiguration
` + neverVerify + "\n"

const neverVerify = "imagePullCredentialsVerificationPolicy: NeverVerify"

// mark begins a configuration that lab has written.
const mark = "# written by lab\n"

// hosts returns containerd's configurations of registries, which it reads for each pull, as lines of a host and a file in Base64, sorted. A registry that is cached is
// asked itself if the cache does not answer.
func hosts(r lab.Registry) string {
	line := func(host, text string) string {
		return host + " " + base64.StdEncoding.EncodeToString([]byte(mark+text))
	}
	lines := []string{line(r.Host, fmt.Sprintf(`server = "http://%[1]s"

[host."http://%[1]s"]
capabilities = ["pull", "resolve"]

[host."http://%[1]s".header]
authorization = "Basic %[2]s"
`, r.Host, base64.StdEncoding.EncodeToString([]byte(r.User+":"+r.Password))))}
	for _, u := range r.Through {
		lines = append(lines, line(u.Host, fmt.Sprintf("server = %q\n\n[host.\"http://%s:%d\"]\ncapabilities = [\"pull\", \"resolve\"]\n", u.URL, u.Cache(), lab.RegistryPort)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// familiar compares a node's configurations with stdin and prints what differs. Kubelets before 1.35 reject the setting.
const familiar = `
cd /etc/containerd/certs.d 2>/dev/null && have=$(grep -lsx "$1" */hosts.toml | while read -r f; do echo "${f%/*} $(base64 -w 0 <"$f")"; done | LC_ALL=C sort)
[ "$have" = "$(cat)" ] || echo hosts
case $(cat /kind/version) in v1.[0-9].*|v1.[12][0-9].*|v1.3[0-4].*) exit 0 ;; esac
grep -qxF "$2" /var/lib/kubelet/config.yaml || echo kubelet`

// configure writes the configurations of stdin, and removes lab's others.
const configure = `
umask 077 && mkdir -p /etc/containerd/certs.d && cd /etc/containerd/certs.d || exit
want=$(cat)
echo "$want" | while read -r host text; do
  mkdir -p "$host" && echo "$text" | base64 -d >"$host/hosts.toml.new" && mv "$host/hosts.toml.new" "$host/hosts.toml" || exit
done || exit
grep -lsx "$1" */hosts.toml | while read -r f; do
  echo "$want" | cut -d ' ' -f 1 | grep -qxF "${f%/*}" || rm "$f"
done`

// restart configures kubelet and waits until it has reported to the API server again: pods with a readiness probe are not ready then.
const restart = `
cd /var/lib/kubelet && { sed '/^imagePullCredentialsVerificationPolicy:/d' config.yaml && echo "$1"; } >config.yaml.new && mv config.yaml.new config.yaml || exit
began=$(date +%s) && systemctl restart kubelet || exit
for _ in $(seq 60); do
  at=$(kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node "$(hostname)" --output 'jsonpath={.status.conditions[?(@.type=="Ready")].lastHeartbeatTime}' 2>/dev/null)
  [ -n "$at" ] && [ "$(date --date "$at" +%s)" -ge "$began" ] && exit
  sleep 0.5
done
echo "kubelet was restarted, and has not reported for 30 s" >&2
exit 1`

// Knows reports whether all nodes of a running cluster are configured for the registry and what it caches.
func (k *Kind) Knows(ctx context.Context, name string, r lab.Registry) (bool, error) {
	nodes, err := k.shells(ctx, name)
	if err != nil {
		return false, err
	}
	differs := make([]string, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	for i, n := range nodes {
		group.Go(func() (err error) {
			differs[i], err = k.unfamiliar(ctx, n, r)
			return err
		})
	}
	err = group.Wait()
	return strings.Join(differs, "") == "", err
}

// unfamiliar returns what of a node's configuration lacks the registry.
func (k *Kind) unfamiliar(ctx context.Context, n docker.Container, r lab.Registry) (string, error) {
	out, err := k.docker.Exec(ctx, n.ID, strings.NewReader(hosts(r)), "sh", "-c", familiar, "sh", strings.TrimSpace(mark), neverVerify)
	return string(out), err
}

// Introduce configures all nodes of a running cluster for the registry: containerd gets its address and credentials, and kubelet does not ask it for images that
// came from elsewhere. Workloads keep running.
func (k *Kind) Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error {
	nodes, err := k.shells(ctx, name)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		differs, err := k.unfamiliar(ctx, n, r)
		if err == nil && strings.Contains(differs, "hosts") {
			orDiscard(p)("configuring " + n.Name + " for the registry")
			_, err = k.docker.Exec(ctx, n.ID, strings.NewReader(hosts(r)), "sh", "-c", configure, "sh", strings.TrimSpace(mark))
		}
		if err == nil && strings.Contains(differs, "kubelet") {
			_, err = k.docker.Exec(ctx, n.ID, nil, "sh", "-c", restart, "sh", neverVerify)
		}
		if err != nil {
			return fmt.Errorf("cluster %s: registry: %w", name, err)
		}
	}
	return nil
}

// shells returns the nodes of a cluster that have a shell.
func (k *Kind) shells(ctx context.Context, name string) ([]docker.Container, error) {
	nodes, err := k.nodes(ctx, name)
	var list []docker.Container
	for _, n := range nodes {
		if n.Labels[kindRoleLabel] != loadBalancer {
			list = append(list, n)
		}
	}
	return list, err
}
