package forge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Paths in Gitea's container. The upstream image and the one built from source agree on program.
const (
	program  = "/app/gitea/gitea"
	dataDir  = "/data"
	workPath = dataDir + "/gitea"
	appINI   = workPath + "/conf/app.ini"
	account  = "1000" // user and group git in both images
)

// settings returns Gitea's app.ini. What a single-user lab does not need is off, which halves the start-up time: no
// SSH, no LFS, no search index, no disk queue, one language. Keys are derived from the password, so that a recreated
// container can read the old volume.
func (g *Gitea) settings() string {
	return strings.NewReplacer(
		"{url}", g.URL(), "{host}", g.name, "{port}", httpPort, "{work}", workPath,
		"{secret}", g.key("secret key"), "{internal}", g.key("internal token"), "{jwt}", g.jwtKey(),
	).Replace(`APP_NAME = lab
RUN_USER = git
RUN_MODE = prod
WORK_PATH = {work}

[server]
PROTOCOL = http
DOMAIN = {host}
ROOT_URL = {url}
HTTP_ADDR = 0.0.0.0
HTTP_PORT = {port}
APP_DATA_PATH = {work}/data
DISABLE_SSH = true
LFS_START_SERVER = false
OFFLINE_MODE = true
; links follow the address that was asked, so that a clone through 127.0.0.1 works too
PUBLIC_URL_DETECTION = auto

[database]
DB_TYPE = sqlite3
PATH = {work}/data/gitea.db
SQLITE_JOURNAL_MODE = WAL
LOG_SQL = false

[repository]
ROOT = {work}/repositories
DEFAULT_BRANCH = main
DEFAULT_PRIVATE = public
DISABLE_STARS = true

[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
INTERNAL_TOKEN = {internal}
PASSWORD_COMPLEXITY = off
; the password is random and long: stretching it would only cost 100 ms with every request
PASSWORD_HASH_ALGO = pbkdf2$1000$50

[service]
DISABLE_REGISTRATION = true
REGISTER_EMAIL_CONFIRM = false
DEFAULT_ALLOW_CREATE_ORGANIZATION = true
ENABLE_CAPTCHA = false

[oauth2]
ENABLED = false
JWT_SECRET = {jwt}

[openid]
ENABLE_OPENID_SIGNIN = false
ENABLE_OPENID_SIGNUP = false

[session]
PROVIDER = memory

[cache]
ADAPTER = memory

[queue]
TYPE = channel

[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false

[webhook]
; the engine's address is a private one
ALLOWED_HOST_LIST = private,loopback
DELIVER_TIMEOUT = 5

[packages]
ENABLED = true

[actions]
ENABLED = false

[mailer]
ENABLED = false

[picture]
DISABLE_GRAVATAR = true
ENABLE_FEDERATED_AVATAR = false

[i18n]
LANGS = en-US
NAMES = English

[cron]
ENABLED = false

[cron.update_checker]
ENABLED = false

[log]
MODE = console
LEVEL = Warn
`)
}

// key derives one of Gitea's secrets from the admin's password.
func (g *Gitea) key(purpose string) string { return hex.EncodeToString(g.derive(purpose)) }

// jwtKey returns 32 bytes in Gitea's format of signing keys.
func (g *Gitea) jwtKey() string { return base64.RawURLEncoding.EncodeToString(g.derive("jwt secret")) }

func (g *Gitea) derive(purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(g.creds.Password))
	mac.Write([]byte("lab forge " + purpose))
	return mac.Sum(nil)
}
