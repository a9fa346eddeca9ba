package settings

import (
	"log/slog"
	"slices"
	"strings"
)

// Values of REDIS_MODE.
const (
	RedisSingle   = "single"
	RedisSentinel = "sentinel"
	RedisCluster  = "cluster"
)

// Redis holds the addresses of Redis, and how a client is let in.
type Redis struct {
	// One server, Sentinels, or several seeds of a cluster. Order uses it for its limits only.
	Addrs []string `env:"REDIS_ADDRS" envDefault:"127.0.0.1:6379"`
	// Database number; 0 with a cluster.
	DB int `env:"REDIS_DB"`
	// What the addresses are: `single`, `sentinel` or `cluster`. Without it one address is a server, several are a cluster.
	Mode string `env:"REDIS_MODE"`
	// User of the [ACL](kubernetes.md#users-of-redis); without it the password is that of `default`.
	Username string `env:"REDIS_USERNAME"`
	// Its password.
	Password Credential `env:"REDIS_PASSWORD" secret:"true"`
	// TLS to Redis and Sentinels, also those of the limits. It trusts the roots of the system.
	TLS bool `env:"REDIS_TLS"`
	// Name in the certificates of all servers; without it the host of each address, or the one that Sentinel or cluster
	// announces.
	TLSServerName string `env:"REDIS_TLS_SERVER_NAME"`
	// Name of the master at the Sentinels.
	SentinelMaster string `env:"REDIS_SENTINEL_MASTER"`
	// User at the Sentinels, also those of the limits.
	SentinelUsername string `env:"REDIS_SENTINEL_USERNAME"`
	// Password at the Sentinels. A change needs a restart.
	SentinelPassword Credential `env:"REDIS_SENTINEL_PASSWORD" secret:"true"`

	ClientCertificate
}

// Validate reports the first wrong setting. Whether credentials for Sentinels are of use depends on the limits too:
// CheckSentinels.
func (r Redis) Validate(bool) error {
	if r.TLSServerName != "" && !r.TLS {
		return Wrong("REDIS_TLS_SERVER_NAME", "needs REDIS_TLS=true")
	}
	if err := checkLogin("REDIS_SENTINEL_USERNAME", r.SentinelUsername, "REDIS_SENTINEL_PASSWORD",
		r.SentinelPassword); err != nil {
		return err
	}
	return CheckRedis("", r)
}

// CheckRedis reports the first wrong one of the settings of one Redis, whose variables have the prefix.
func CheckRedis(prefix string, r Redis) error {
	name := func(setting string) string { return prefix + "REDIS_" + setting }
	if err := checkDialAddrs(name("ADDRS"), r.Addrs); err != nil {
		return err
	}
	switch {
	case r.Mode != "" && r.Mode != RedisSingle && r.Mode != RedisSentinel && r.Mode != RedisCluster:
		return Wrong(name("MODE"), "is %q and must be %s, %s or %s", r.Mode, RedisSingle, RedisSentinel, RedisCluster)
	case r.Mode == RedisSingle && len(r.Addrs) > 1:
		return Wrong(name("MODE"), "must not be %s with several %s", RedisSingle, name("ADDRS"))
	case r.Mode == RedisSentinel && r.SentinelMaster == "":
		return Wrong(name("SENTINEL_MASTER"), "is required with %s=%s and not set", name("MODE"), RedisSentinel)
	case r.Mode != RedisSentinel && r.SentinelMaster != "":
		return Wrong(name("SENTINEL_MASTER"), "needs %s=%s", name("MODE"), RedisSentinel)
	case r.DB < 0 || r.DB > 1_000_000:
		return Wrong(name("DB"), "is %d and must not be negative", r.DB)
	case r.DB != 0 && r.Mode == RedisCluster:
		return Wrong(name("DB"), "must be 0 with %s=%s, as a cluster has one database", name("MODE"), RedisCluster)
	case r.DB != 0 && r.Cluster():
		return Wrong(name("DB"), "must be 0 with several %s, as a cluster has one database", name("ADDRS"))
	}
	return checkLogin(name("USERNAME"), r.Username, name("PASSWORD"), r.Password)
}

// CheckSentinels reports credentials for Sentinels that no Redis of the process uses: neither its own nor that of the
// limits.
func CheckSentinels(own, limits Redis) error {
	if own.Mode == RedisSentinel || limits.Mode == RedisSentinel || !own.SentinelPassword.IsSet() {
		return nil
	}
	return Wrong("REDIS_SENTINEL_PASSWORD", "needs REDIS_MODE=%s or LIMIT_REDIS_MODE=%s", RedisSentinel, RedisSentinel)
}

// CheckEncrypted reports credentials that production would send in plain text, for a Redis whose variables have the
// prefix. Addresses of loopback need no TLS: there a tunnel in the pod may have it.
func CheckEncrypted(prefix string, r Redis, production bool) error {
	beyond := slices.IndexFunc(r.Addrs, func(addr string) bool { return !loopback(addr) })
	switch {
	case !production || r.TLS || beyond < 0:
		return nil
	case r.Password.IsSet():
		return Wrong("REDIS_TLS", "must be true with %sREDIS_PASSWORD and APP_ENV=production: the password would go to %s "+
			"in plain text", prefix, r.Addrs[beyond])
	case r.Mode == RedisSentinel && r.SentinelPassword.IsSet():
		return Wrong("REDIS_TLS", "must be true with REDIS_SENTINEL_PASSWORD and APP_ENV=production: the password would go "+
			"to %s in plain text", r.Addrs[beyond])
	}
	return nil
}

// Cluster reports whether the addresses are seeds of a cluster.
func (r Redis) Cluster() bool { return r.Mode == RedisCluster || r.Mode == "" && len(r.Addrs) > 1 }

// checkLogin reports a user without a password, and blanks around either.
func checkLogin(userVariable, user, passwordVariable string, p Credential) error {
	switch {
	case strings.TrimSpace(user) != user:
		return Wrong(userVariable, "has a blank before or after the name")
	case strings.TrimSpace(p.value) != p.value:
		return Wrong(passwordVariable, "has a blank before or after the password")
	case user != "" && !p.IsSet():
		return Wrong(userVariable, "needs %s", passwordVariable)
	}
	return nil
}

// Credential lets a process in at a back end. One that is given as NAME_FILE may change while the process runs.
type Credential struct {
	value    string // at the start
	variable string // NAME_FILE
	file     string // its value; "" without it
}

// NewCredential returns a credential that does not change.
func NewCredential(value string) Credential { return Credential{value: value} }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Credential) UnmarshalText(text []byte) error {
	p.value = string(text)
	return nil
}

// hidden stands for a secret in logs and other output.
const hidden = "(hidden)"

// String returns "(hidden)", or "" if there is none. It also serves fmt, slog and the encoders.
func (p Credential) String() string {
	if p.IsSet() {
		return hidden
	}
	return ""
}

// GoString implements fmt.GoStringer.
func (p Credential) GoString() string { return p.String() }

// LogValue implements slog.LogValuer.
func (p Credential) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText implements encoding.TextMarshaler.
func (p Credential) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// IsSet reports whether there is one.
func (p Credential) IsSet() bool { return p.value != "" }

// AtStart returns it as it was when the settings were loaded.
func (p Credential) AtStart() string { return p.value }

// Read returns the present one: that of the file, read again, if there is one. Its error is an *Error.
func (p Credential) Read() (string, error) {
	if p.file == "" {
		return p.value, nil
	}
	value, err := readSecret(p.file)
	if err != nil {
		return "", Wrong(p.variable, "names a file that %v", err)
	}
	return value, nil
}
