package forge

import "strings"

// Paths in Gitea's container. The upstream image and the one built from source agree on program.
const (
	program  = "/app/gitea/gitea"
	dataDir  = "/data"
	workPath = dataDir + "/gitea"
	appINI   = workPath + "/conf/app.ini"
	account  = "1000" // user and group git in both images

	gateProgram = "/lab-gate" // see package gate
	innerPort   = "3001"      // of Gitea behind the gate, on the container's loopback address
)

// Keys are Gitea's secrets, random and kept with the lab. The secret key encrypts what the volume contains, two-factor secrets and the headers of webhooks among
// it: it must stay the same as long as the volume.
type Keys struct {
	Secret   string
	Internal string // lets Gitea's Git hooks call its server
	JWT      string // 32 bytes in unpadded base64 of URLs, as Gitea demands
}

// settings returns Gitea's app.ini. What a single-user lab does not need is off, which halves the start-up time: no
// SSH, no LFS, no search index, no disk queue, one language. Nothing is shown to those who have not signed in.
func (g *Gitea) settings() string {
	return strings.NewReplacer(
		"{url}", g.URL(), "{host}", g.name, "{port}", innerPort, "{work}", workPath,
		"{secret}", g.creds.Keys.Secret, "{internal}", g.creds.Keys.Internal, "{jwt}", g.creds.Keys.JWT,
	).Replace(`APP_NAME = lab
RUN_USER = git
RUN_MODE = prod
WORK_PATH = {work}

[server]
PROTOCOL = http
DOMAIN = {host}
ROOT_URL = {url}
; the gate is in front, as Gitea itself would answer to any Host header
HTTP_ADDR = 127.0.0.1
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
DEFAULT_PRIVATE = private
FORCE_PRIVATE = true
DEFAULT_PUSH_CREATE_PRIVATE = true
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
REQUIRE_SIGNIN_VIEW = true
REGISTER_EMAIL_CONFIRM = false
DEFAULT_ALLOW_CREATE_ORGANIZATION = true
ENABLE_CAPTCHA = false

[service.explore]
REQUIRE_SIGNIN_VIEW = true
DISABLE_USERS_PAGE = true

[api]
ENABLE_SWAGGER = false

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
