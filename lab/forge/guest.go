package forge

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"homelab/lab/docker"

	"code.gitea.io/sdk/gitea"
)

// Runner is the account of the lab's runner. Gitea lets only those set a commit status who may also push, so the account's token stays in the forge's container, and the gate
// adds it to the requests that the runner is for.
const Runner = "lab-runner"

// Guest is the runner, as the forge knows it.
type Guest struct {
	Password string // with the gate
	Hook     string // address that is called when a request or a branch changes
	Secret   string // that signs the calls
	Network  string // that it reaches the forge in; it may not exist yet
}

// guestsFile is what the gate reads.
const guestsFile = "gitea/conf/guests.json"

// guests returns the accounts that the gate limits, for the gate.
func (g *Gitea) guests(spec Spec) any {
	type guest struct {
		User, Password, Token string
		May                   []string
	}
	list := []guest{}
	if spec.Runner != (Guest{}) {
		api, repo := "/api/v1/repos/"+g.creds.User+"/"+g.repository, "/"+g.creds.User+"/"+g.repository+".git"
		list = append(list, guest{Runner, spec.Runner.Password, g.tokens.ForgeToken(Runner), []string{
			"GET " + api + "/pulls", "GET " + api + "/contents/.lab/runner.yaml", "POST " + api + "/statuses/*",
			"GET " + api + "/issues/*/comments", "POST " + api + "/issues/*/comments", "PATCH " + api + "/issues/comments/*",
			"POST " + repo + "/git-upload-pack",
		}})
	}
	return list
}

// receive ensures the accounts that the gate limits, or that there are none.
func (g *Gitea) receive(ctx context.Context, s State, spec Spec) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	wanted := spec.Runner != (Guest{})
	if !wanted && g.tokens.ForgeToken(Runner) == "" {
		return nil
	}
	if wanted {
		err = g.ensureRunner(ctx, s, api)
	} else {
		err = g.dropAccount(api, Runner)
	}
	if err == nil {
		err = g.callRunner(api, spec.Runner)
	}
	if err != nil {
		return fmt.Errorf("%s of the forge: %w", Runner, err)
	}
	return g.tellGate(ctx, g.guests(spec))
}

// ensureRunner ensures the runner's account. To get a token it logs in with a password, which is not the one that the gate may know.
func (g *Gitea) ensureRunner(ctx context.Context, s State, api *gitea.Client) error {
	known, err := g.knows(ctx, s, Runner)
	if err == nil && !known {
		err = g.tellGate(ctx, []any{})
	}
	if err == nil {
		err = g.ensureAccount(ctx, s, api, Runner, "write:repository", "write:issue")
	}
	if err != nil {
		return err
	}
	mode := gitea.AccessModeWrite
	_, err = api.AddCollaborator(g.creds.User, g.repository, Runner, gitea.AddCollaboratorOption{Permission: &mode})
	return err
}

// tellGate writes the accounts that the gate limits.
func (g *Gitea) tellGate(ctx context.Context, guests any) error {
	text, err := json.Marshal(guests)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(account)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: guestsFile, Typeflag: tar.TypeReg, Mode: 0o600, Uid: id, Gid: id, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = g.docker.Output(ctx, &b, "cp", "-", g.name+":"+dataDir)
	return err
}

// runnerMark identifies the runner's webhook. It is not sent.
const runnerMark = "#lab-runner"

// callRunner ensures the webhook that calls the runner, or that there is none.
func (g *Gitea) callRunner(api *gitea.Client, guest Guest) error {
	const most = 50
	list, _, err := api.ListRepoHooks(g.creds.User, g.repository, gitea.ListHooksOptions{ListOptions: gitea.ListOptions{Page: 1, PageSize: most}})
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(guest.Secret))
	mac.Write([]byte(guest.Hook))
	want, has := guest.Hook+runnerMark+"="+hex.EncodeToString(mac.Sum(nil))[:16], false
	for _, h := range list {
		if address := h.Config["url"]; address == want && guest != (Guest{}) && h.Active {
			has = true
		} else if strings.Contains(address, runnerMark) {
			if _, err := api.DeleteRepoHook(g.creds.User, g.repository, h.ID); err != nil {
				return err
			}
		}
	}
	if has || guest == (Guest{}) {
		return nil
	}
	_, _, err = api.CreateRepoHook(g.creds.User, g.repository, gitea.CreateHookOption{
		Type: gitea.HookTypeGitea, Active: true, Events: []string{"push", "pull_request", "pull_request_sync"},
		Config: map[string]string{"url": want, "content_type": "json", "secret": guest.Secret},
	})
	return err
}

// join connects the forge's container with the runner's network, if there is one.
func (g *Gitea) join(ctx context.Context, network string, c docker.Container) error {
	if _, connected := c.Addresses[network]; network == "" || connected {
		return nil
	}
	if _, err := g.docker.Output(ctx, nil, "network", "inspect", network); docker.NotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	return g.docker.Connect(ctx, g.name, network)
}
