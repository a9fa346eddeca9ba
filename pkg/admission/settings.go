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

// The rules that hold where LIMIT_RULES names no file.
var (
	//go:embed rules.yaml
	productionRules []byte
	//go:embed rules-development.yaml
	developmentRules []byte
)

// Settings say which limits hold and where what is spent of them is kept. The zero value is that of a developer's machine
// without Redis.
type Settings struct {
	// Rules is a file, read again when it changes; without it those that come along hold, which differ by APP_ENV.
	Rules string `env:"LIMIT_RULES"`
	// RedisAddrs and RedisDB are of the limiters, where they have a Redis of their own; empty: REDIS_ADDRS and REDIS_DB.
	RedisAddrs []string `env:"LIMIT_REDIS_ADDRS"`
	RedisDB    int      `env:"LIMIT_REDIS_DB"`
	// TrustedProxies are the networks of the proxies in front, whose X-Forwarded-For is believed.
	TrustedProxies []string `env:"TRUSTED_PROXIES"`
	// PathRate is how many paths of one activity all pods together issue in a second; 0: as the rules say.
	PathRate int64 `env:"PATH_RATE"`
	// PathTotalRate is how many of all activities; 0: totalPerRate times PathRate, or PathRate where the rules have no bucket
	// of each activity.
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
			return settings.Wrong("TRUSTED_PROXIES", "holds %s, which is wider than any private network and refused with APP_ENV=production: "+
				"a caller in it chooses the address that limits count", p)
		}
	}
	for _, addr := range s.RedisAddrs {
		if err := settings.CheckDialAddr("LIMIT_REDIS_ADDRS", addr); err != nil {
			return err
		}
	}
	switch {
	case s.RedisDB < 0 || s.RedisDB > 1_000_000:
		return settings.Wrong("LIMIT_REDIS_DB", "is %d and must not be negative", s.RedisDB)
	case s.RedisDB != 0 && len(s.RedisAddrs) != 1:
		return settings.Wrong("LIMIT_REDIS_DB", "needs one address in LIMIT_REDIS_ADDRS")
	case s.PathRate < 0 || s.PathRate > maxPathRate:
		return settings.Wrong("PATH_RATE", "is %d and must be 1 to %d, or 0 for what the rules say", s.PathRate, maxPathRate)
	case s.PathTotalRate < 0 || s.PathTotalRate > maxPathRate*totalPerRate:
		return settings.Wrong("PATH_TOTAL_RATE", "is %d and must be 1 to %d, or 0 for %d times PATH_RATE", s.PathTotalRate, maxPathRate*totalPerRate, totalPerRate)
	}
	text, err := s.text()
	if err == nil {
		_, err = rules.Parse(text)
	}
	if err != nil {
		return settings.Wrong("LIMIT_RULES", "is of no use: %v", err)
	}
	return nil
}

// text is what the rules' file says.
func (s *Settings) text() ([]byte, error) {
	switch {
	case s.Rules != "":
		return os.ReadFile(s.Rules)
	case s.production:
		return productionRules, nil
	}
	return developmentRules, nil
}

// tooWide is what no installation's own proxies fill: more than the widest private networks, 10.0.0.0/8 and fc00::/7.
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
				return nil, settings.Wrong("TRUSTED_PROXIES", "holds %q, which is neither an address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

// The rules that PATH_RATE and PATH_TOTAL_RATE are about.
const (
	pathActivity = "path-activity"
	pathTotal    = "path-total"
)

// edit puts PATH_RATE and PATH_TOTAL_RATE in the place of the rules' own limits.
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

// setRate changes the limit of a rule, unless rate is 0 or the rule lets nothing pass. A burst that the rule names stays
// the same part of the limit.
func setRate(r *rules.Rule, rate int64) {
	if rate == 0 || r.Limit == 0 {
		return
	}
	r.Burst = max(min(r.Burst, 1), r.Burst*rate/r.Limit)
	r.Limit = rate
}
