package forge

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"homelab/lab"

	"code.gitea.io/sdk/gitea"
)

const helm = "helm" // Gitea's package type

// PublishCharts publishes charts to the forge's Helm repository and returns the missing or changed ones as "podinfo
// 6.9.2". A version with other content is replaced.
func (g *Gitea) PublishCharts(ctx context.Context, charts []lab.Chart) (changed []string, err error) {
	err = g.call(ctx, "the publication of charts", apiLimit, func(ctx context.Context, s State) error {
		api, err := g.api(ctx, s)
		if err != nil {
			return err
		}
		for _, c := range charts {
			digest, err := g.publishedChart(api, c)
			if err == nil && digest != c.Digest {
				changed = append(changed, c.Name+" "+c.Version)
				err = g.publish(ctx, s, api, c, digest != "")
			}
			if err != nil {
				return fmt.Errorf("chart %s %s: %w", c.Name, c.Version, err)
			}
		}
		return nil
	})
	return changed, err
}

// MissingCharts returns the charts that the forge lacks or has with other content.
func (g *Gitea) MissingCharts(ctx context.Context, charts []lab.Chart) (missing []string, err error) {
	err = g.call(ctx, "the list of charts", apiLimit, func(ctx context.Context, s State) error {
		api, err := g.api(ctx, s)
		if err != nil {
			return err
		}
		for _, c := range charts {
			digest, err := g.publishedChart(api, c)
			if err != nil {
				return fmt.Errorf("chart %s %s: %w", c.Name, c.Version, err)
			}
			if digest != c.Digest {
				missing = append(missing, c.Name+" "+c.Version)
			}
		}
		return nil
	})
	return missing, err
}

// publishedChart returns the digest of a published chart version, or "".
func (g *Gitea) publishedChart(api *gitea.Client, c lab.Chart) (string, error) {
	files, resp, err := api.ListPackageFiles(g.creds.User, helm, c.Name, c.Version)
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		return "", nil
	}
	if err != nil || len(files) == 0 {
		return "", err
	}
	return "sha256:" + files[0].SHA256, nil
}

func (g *Gitea) publish(ctx context.Context, s State, api *gitea.Client, c lab.Chart, replace bool) error {
	if replace { // Gitea refuses to overwrite a version
		if _, err := api.DeletePackage(g.creds.User, helm, c.Name, c.Version); err != nil {
			return err
		}
	}
	f, err := os.Open(c.Archive)
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.HostURL+"/api/packages/"+g.creds.User+"/helm/api/charts", f)
	if err != nil {
		return err
	}
	req.SetBasicAuth(g.creds.User, g.creds.Password)
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		const enough = 512
		text, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // the status is the error
		return fmt.Errorf("forge answers %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// EnsureWebhook registers webhooks that notify url, and also further ones, of pushes to the estate, signed with secret. It
// reports whether anything changed.
func (g *Gitea) EnsureWebhook(ctx context.Context, url, secret string, also ...string) (changed bool, err error) {
	err = g.call(ctx, "the webhooks of repository "+g.repository, apiLimit, func(ctx context.Context, s State) error {
		changed, err = g.ensureWebhook(ctx, s, secret, marked(secret, url, also))
		return err
	})
	return changed, err
}

func (g *Gitea) ensureWebhook(ctx context.Context, s State, secret string, want []string) (bool, error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return false, err
	}
	ours, others, err := g.hooks(api, want)
	if err != nil {
		return false, err
	}
	for _, h := range others { // of an engine with another address or secret
		if _, err := api.DeleteRepoHook(g.creds.User, g.repository, h.ID); err != nil {
			return false, fmt.Errorf("webhook: %w", err)
		}
	}
	for _, to := range want {
		if ours[to] {
			continue
		}
		_, _, err = api.CreateRepoHook(g.creds.User, g.repository, gitea.CreateHookOption{
			Type: gitea.HookTypeGitea, Active: true, Events: []string{"push"}, BranchFilter: g.branch,
			Config: map[string]string{"url": to, "content_type": "json", "secret": secret},
		})
		if err != nil {
			return false, fmt.Errorf("webhook: %w", err)
		}
	}
	return len(others) > 0 || len(ours) < len(want), nil
}

// HasWebhook reports whether EnsureWebhook would change nothing.
func (g *Gitea) HasWebhook(ctx context.Context, url, secret string, also ...string) (has bool, err error) {
	err = g.call(ctx, "the webhooks of repository "+g.repository, apiLimit, func(ctx context.Context, s State) error {
		has, err = g.hooked(ctx, s, marked(secret, url, also))
		return err
	})
	return has, err
}

func (g *Gitea) hooked(ctx context.Context, s State, want []string) (bool, error) {
	api, err := g.api(ctx, s)
	if err != nil {
		return false, err
	}
	ours, others, err := g.hooks(api, want)
	return len(ours) == len(want) && len(others) == 0, err
}

// hooks returns which of the wanted webhooks there are, and lab's outdated ones. Webhooks of users are in neither list.
func (g *Gitea) hooks(api *gitea.Client, want []string) (ours map[string]bool, others []*gitea.Hook, err error) {
	ours = map[string]bool{}
	for page := 1; page > 0; {
		list, resp, err := api.ListRepoHooks(g.creds.User, g.repository, gitea.ListHooksOptions{ListOptions: gitea.ListOptions{Page: page}})
		if err != nil {
			return nil, nil, fmt.Errorf("webhook: %w", err)
		}
		for _, h := range list {
			switch to := h.Config["url"]; {
			case !strings.Contains(to, marker) && !strings.Contains(to, formerMarker):
			case slices.Contains(want, to) && h.Active && slices.Contains(h.Events, "push") && !ours[to]:
				ours[to] = true
			default:
				others = append(others, h)
			}
		}
		page = resp.NextPage
	}
	return ours, others, nil
}

// marker is a fragment that identifies lab's webhooks. It is not sent: Flux's receivers take a query, which formerMarker is, for part of their path.
const marker, formerMarker = "#lab=", "?lab="

// marked appends a keyed digest of the secret to URLs. Gitea does not return secrets, so changes are detected by the
// digest.
func marked(secret, url string, also []string) []string {
	var list []string
	for _, to := range append([]string{url}, also...) {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(to))
		list = append(list, to+marker+hex.EncodeToString(mac.Sum(nil))[:16])
	}
	return list
}
