package admission

import (
	_ "embed"
	"net/netip"
	"os"
	"slices"
	"strings"

	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/pkg/settings"
)

// The rules that apply if LIMIT_RULES names no file.
var (
	//go:embed rules.yaml
	productionRules []byte
	//go:embed rules-development.yaml
	developmentRules []byte
)

// Settings select the rules of the limits and the Redis that holds their counts. The zero value suits a developer's
// machine without Redis.
type Settings struct {
	// File of [rules](limits.md), read again when it changes; without it the embedded rules apply, which differ by
	// `APP_ENV`.
	Rules string `env:"LIMIT_RULES"`
	// Redis of the limiters alone; without it they use that of `REDIS_ADDRS`.
	RedisAddrs []string `env:"LIMIT_REDIS_ADDRS"`
	// Its database number.
	RedisDB int `env:"LIMIT_REDIS_DB"`
	// What its addresses are, as `REDIS_MODE`.
	RedisMode string `env:"LIMIT_REDIS_MODE"`
	// User of the limiters; without it, and without a password, they have that of `REDIS_USERNAME`, but never at
	// `LIMIT_REDIS_ADDRS`.
	RedisUsername string `env:"LIMIT_REDIS_USERNAME"`
	// Its password.
	RedisPassword settings.Credential `env:"LIMIT_REDIS_PASSWORD" secret:"true"`
	// Name of the master of the limits at the Sentinels.
	RedisSentinelMaster string `env:"LIMIT_REDIS_SENTINEL_MASTER"`
	// Networks of the proxies whose `X-Forwarded-For` is trusted.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// Paths of one activity that all pods together issue in a second; 0: the limit of the rule.
	PathRate int64 `env:"PATH_RATE"`
	// The same for all activities together; 0: four times `PATH_RATE`, or `PATH_RATE` if the rules have no bucket for
	// each activity.
	PathTotalRate int64 `env:"PATH_TOTAL_RATE"`

	production bool
}

const (
	maxPathRate  = 10_000_000 // above what any number of pods can do
	totalPerRate = 4          // activities that may sell at full rate at the same time
)

// Validate reports the first wrong setting. It is called by settings.Load.
func (s *Settings) Validate(production bool) error {
	s.production = production
	proxies, err := s.proxies()
	if err != nil {
		return err
	}
	for _, p := range proxies {
		if production && tooWide(p) {
			return settings.Wrong("TRUSTED_PROXIES",
				"holds %s, which is wider than any private network and refused with "+
					"APP_ENV=production: a caller in it chooses the address that limits count", p)
		}
	}
	if err := s.checkRedis(); err != nil {
		return err
	}
	switch {
	case s.PathRate < 0 || s.PathRate > maxPathRate:
		return settings.Wrong("PATH_RATE", "is %d and must be 1 to %d, or 0 for the limit of the rules",
			s.PathRate, maxPathRate)
	case s.PathTotalRate < 0 || s.PathTotalRate > maxPathRate*totalPerRate:
		return settings.Wrong("PATH_TOTAL_RATE", "is %d and must be 1 to %d, or 0 for %d times PATH_RATE",
			s.PathTotalRate, maxPathRate*totalPerRate, totalPerRate)
	}
	text, err := s.text()
	if err == nil {
		_, err = rules.Parse(text)
	}
	if err != nil {
		return settings.Wrong("LIMIT_RULES", "is invalid: %v", err)
	}
	return nil
}

// checkRedis reports the first wrong setting of the Redis of the limits.
func (s *Settings) checkRedis() error {
	own := settings.Redis{
		Addrs: s.RedisAddrs, DB: s.RedisDB, Mode: s.RedisMode, Username: s.RedisUsername, Password: s.RedisPassword,
		SentinelMaster: s.RedisSentinelMaster,
	}
	if len(s.RedisAddrs) == 0 {
		for _, c := range []struct {
			variable string
			set      bool
		}{
			{"LIMIT_REDIS_DB", s.RedisDB != 0},
			{"LIMIT_REDIS_MODE", s.RedisMode != ""},
			{"LIMIT_REDIS_SENTINEL_MASTER", s.RedisSentinelMaster != ""},
		} {
			if c.set {
				return settings.Wrong(c.variable, "needs LIMIT_REDIS_ADDRS")
			}
		}
		own.Addrs, own.DB = []string{"127.0.0.1:6379"}, 0 // to check the rest
	}
	return settings.CheckRedis("LIMIT_", own)
}

// Redis returns the Redis of the limits, where of is that of the service. With addresses of its own it shares TLS and
// the credentials for Sentinels, and never gets the password of the service's Redis.
func (s *Settings) Redis(of settings.Redis) settings.Redis {
	if len(s.RedisAddrs) > 0 {
		of.Addrs, of.DB, of.Mode, of.SentinelMaster = s.RedisAddrs, s.RedisDB, s.RedisMode, s.RedisSentinelMaster
		of.Username, of.Password = s.RedisUsername, s.RedisPassword
	} else if s.RedisPassword.IsSet() {
		of.Username, of.Password = s.RedisUsername, s.RedisPassword
	}
	return of
}

// text returns the rules: those of the file, or the embedded ones.
func (s *Settings) text() ([]byte, error) {
	switch {
	case s.Rules != "":
		return os.ReadFile(s.Rules)
	case s.production:
		return productionRules, nil
	}
	return developmentRules, nil
}

// tooWide reports whether a network is wider than the widest private networks, 10.0.0.0/8 and fc00::/7.
func tooWide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	return p.Bits() < 7
}

func (s *Settings) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range s.TrustedProxies {
		text = strings.TrimSpace(text)
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, aerr := netip.ParseAddr(text)
			if aerr != nil {
				return nil, settings.Wrong("TRUSTED_PROXIES",
					"holds %q, which is neither an address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

// The rules whose limits PATH_RATE and PATH_TOTAL_RATE set.
const (
	pathActivity = "path-activity"
	pathTotal    = "path-total"
)

// edit replaces the limits of the path rules by PATH_RATE and PATH_TOTAL_RATE.
func (s *Settings) edit(set *rules.Set) {
	total := s.PathTotalRate
	if total == 0 {
		total = s.PathRate
		// Rules from before path-activity keep the limit that PATH_RATE gave them.
		if slices.ContainsFunc(set.Rules, func(r rules.Rule) bool { return r.Name == pathActivity }) {
			total *= totalPerRate
		}
	}
	for i := range set.Rules {
		switch r := &set.Rules[i]; r.Name {
		case pathActivity:
			setRate(r, s.PathRate)
		case pathTotal:
			setRate(r, total)
		}
	}
}

// setRate changes the limit of a rule, unless rate is 0 or the rule refuses everything. The burst of the rule keeps
// its ratio to the limit.
func setRate(r *rules.Rule, rate int64) {
	if rate == 0 || r.Limit == 0 {
		return
	}
	r.Burst = max(min(r.Burst, 1), r.Burst*rate/r.Limit)
	r.Limit = rate
}
