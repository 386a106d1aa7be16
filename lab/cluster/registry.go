package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
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

// hosts is containerd's configuration of a registry, which it reads for each pull.
func hosts(r lab.Registry) string {
	return fmt.Sprintf(`server = "http://%[1]s"

[host."http://%[1]s"]
capabilities = ["pull", "resolve"]

[host."http://%[1]s".header]
authorization = "Basic %[2]s"
`, r.Host, base64.StdEncoding.EncodeToString([]byte(r.User+":"+r.Password)))
}

// familiar compares a node's configuration with stdin and prints what differs. Kubelets before 1.35 reject the setting.
const familiar = `
want=$(cat)
[ "$(cat "/etc/containerd/certs.d/$1/hosts.toml" 2>/dev/null)" = "$want" ] || echo hosts
case $(cat /kind/version) in v1.[0-9].*|v1.[12][0-9].*|v1.3[0-4].*) exit 0 ;; esac
grep -qxF "$2" /var/lib/kubelet/config.yaml || echo kubelet`

// Knows reports whether all nodes of a running cluster are configured for the registry.
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
	out, err := k.docker.Exec(ctx, n.ID, strings.NewReader(hosts(r)), "sh", "-c", familiar, "sh", r.Host, neverVerify)
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
			_, err = k.docker.Exec(ctx, n.ID, strings.NewReader(hosts(r)), "sh", "-c",
				`umask 077 && dir=/etc/containerd/certs.d/$1 && mkdir -p "$dir" && cat >"$dir/hosts.toml.new" && mv "$dir/hosts.toml.new" "$dir/hosts.toml"`, "sh", r.Host)
		}
		if err == nil && strings.Contains(differs, "kubelet") {
			_, err = k.docker.Exec(ctx, n.ID, nil, "sh", "-c",
				`cd /var/lib/kubelet && { sed '/^imagePullCredentialsVerificationPolicy:/d' config.yaml && echo "$1"; } >config.yaml.new && mv config.yaml.new config.yaml && systemctl restart kubelet`, "sh", neverVerify)
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
