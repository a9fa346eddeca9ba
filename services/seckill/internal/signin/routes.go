// Package signin signs browsers in and out. After a sign-in at the identity provider it issues a session of its own,
// in a cookie that scripts cannot read, and keeps no token of the provider.
package signin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/pages"
)

// Bounds of the requests that wait for the provider at the same time. Login and callback have slots of their own, so
// that neither takes those of the other.
var (
	// Logins call the provider only while its configuration is unknown.
	loginSlots = ratelimit.BulkheadSpec{Limit: 128}
	// A callback waits for its slot, because its attempt is spent by then. The queue holds what 64 connections to the
	// provider serve in MaxWait if each response takes a quarter of a second.
	callbackSlots = ratelimit.BulkheadSpec{Limit: 128, Queue: 512, MaxWait: 2 * time.Second}
)

// SignIn holds the routes below /auth/.
type SignIn struct {
	claims    settings.Auth
	sessions  *auth.Sessions   // nil without SESSION_SECRET: then no one can sign in
	provider  *provider        // nil without OIDC_ISSUER
	spent     *admission.Spent // the states of the attempts that were used
	logins    *ratelimit.Bulkhead
	callbacks *ratelimit.Bulkhead
	limits    *admission.Limits
	tel       *telemetry.Telemetry
}

// New returns the routes. publicURL is the address of the pages, without a slash at its end. claims are the settings of
// tokens, with those of sessions and of developers' tokens.
func New(
	s Settings, publicURL string, claims settings.Auth, limits *admission.Limits, tel *telemetry.Telemetry,
) (*SignIn, error) {
	out := &SignIn{
		claims: claims.WithDefaults(), sessions: auth.NewSessions(claims), limits: limits, tel: tel,
		spent: admission.NewSpent(admission.NewShared(limits.Redis()), "fs:sign-in:", attemptTTL),
	}
	var err, more error
	out.logins, err = ratelimit.NewBulkhead(loginSlots)
	out.callbacks, more = ratelimit.NewBulkhead(callbackSlots)
	if err = errors.Join(err, more); err != nil {
		return nil, err
	}
	if s.On() && out.sessions != nil {
		out.provider = newProvider(s, publicURL, claims)
	}
	return out, nil
}

// Method returns how a browser can sign in.
func (s *SignIn) Method() api.PagesConfigSignIn {
	switch {
	case s.provider != nil:
		return api.Oidc
	case s.sessions != nil && s.claims.DevTokens:
		return api.Dev
	}
	return api.None
}

// Close closes idle connections to the provider.
func (s *SignIn) Close() {
	if s.provider != nil {
		s.provider.close()
	}
}

// Mount adds the routes. Without sessions, only GET /auth/session exists.
func (s *SignIn) Mount(r chi.Router) {
	r.Get("/auth/session", s.session)
	if s.sessions == nil {
		return
	}
	r.With(s.sessions.SameOrigin).Post("/auth/logout", s.logout)
	if s.claims.DevTokens {
		r.With(s.sessions.SameOrigin).Post("/auth/dev", s.dev)
	}
	if s.provider != nil {
		r.With(s.limits.On("login-per-ip")).Get("/auth/login", s.login)
		r.With(s.limits.On("callback-per-ip")).Get(CallbackPath, s.callback)
	}
}

func (s *SignIn) session(w http.ResponseWriter, r *http.Request) {
	var out api.Session
	if s.sessions != nil {
		if id, expires, ok := s.sessions.Current(r); ok {
			roles := make([]api.SessionRoles, len(id.Roles))
			for i, role := range id.Roles {
				roles[i] = api.SessionRoles(role)
			}
			expires = expires.UTC()
			out = api.Session{SignedIn: true, UserId: &id.UserID, Roles: &roles, ExpiresAt: &expires}
			if id.MerchantID != "" {
				out.MerchantId = &id.MerchantID
			}
		}
	}
	w.Header().Set("Vary", "Cookie")
	httpserver.WriteJSON(w, http.StatusOK, out)
}

// dev signs a caller in under any name. Its route exists only with developers' tokens.
func (s *SignIn) dev(w http.ResponseWriter, r *http.Request) {
	id, err := Developer(w, r)
	if err == nil {
		id, err = s.developer(id)
	}
	if err == nil {
		err = s.sessions.Start(w, r, id)
	}
	if err != nil {
		problem.Write(w, r, s.tel.Log, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// logout ends the session in the browser and returns where the browser goes next: the provider's sign-out, if the
// provider has one and responds.
func (s *SignIn) logout(w http.ResponseWriter, r *http.Request) {
	_, _, signedIn := s.sessions.Current(r)
	s.sessions.End(w, r)
	next := "/"
	if s.provider != nil && signedIn {
		if u := s.provider.logoutURL(r.Context()); u != "" {
			next = u
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, api.SignedOut{Next: next})
}

func (s *SignIn) login(w http.ResponseWriter, r *http.Request) {
	a := newAttempt(r.URL.Query().Get("next"))
	ctx, end, ok := s.slot(w, r, s.logins, a.Next)
	if !ok {
		return
	}
	defer end()
	to, err := s.provider.loginURL(ctx, a)
	if err != nil {
		s.unreachable(w, r, a.Next, err)
		return
	}
	token, err := a.seal(s.claims.Session.Secrets[0])
	if err != nil {
		s.unreachable(w, r, a.Next, err)
		return
	}
	s.sessions.SetCookie(w, r, attemptCookie, token, attemptTTL)
	redirect(w, to)
}

// callback checks the cookie and spends its attempt before it takes a slot: a browser can repeat its own callback at no
// cost to others. While the Redis of the limits is unavailable, each process spends an attempt once.
func (s *SignIn) callback(w http.ResponseWriter, r *http.Request) {
	a, err := attemptOf(s.sessions, s.claims.Session.Secrets, r)
	s.sessions.SetCookie(w, r, attemptCookie, "", -1)
	q := r.URL.Query()
	switch {
	case err != nil:
		again("This sign-in took too long, or it began in another browser or tab. 登录已超时，请重试。", "/").
			Write(w, r, http.StatusBadRequest)
	case q.Get("state") != a.State:
		again("The answer of the identity provider belongs to another sign-in. 登录状态不符，请重试。", a.Next).
			Write(w, r, http.StatusBadRequest)
	case q.Get("error") != "":
		m := again("The identity provider refused this sign-in. 身份提供方拒绝了登录。", a.Next)
		m.Detail = clip(q.Get("error") + ": " + q.Get("error_description"))
		m.Write(w, r, http.StatusForbidden)
	case !s.spent.Spend(r.Context(), a.State):
		again("This sign-in was used before. 此次登录已使用过，请重新登录。", a.Next).Write(w, r, http.StatusBadRequest)
	default:
		s.finish(w, r, a, q.Get("code"))
	}
}

// finish exchanges the code of a spent attempt and signs the browser in.
func (s *SignIn) finish(w http.ResponseWriter, r *http.Request, a attempt, code string) {
	ctx, end, ok := s.slot(w, r, s.callbacks, a.Next)
	if !ok {
		return
	}
	defer end()
	id, err := s.provider.identity(ctx, code, a)
	if err == nil {
		err = s.sessions.Start(w, r, id)
	}
	switch {
	case err == nil:
		redirect(w, a.Next)
	case errors.Is(err, errRefused):
		s.tel.Log.WarnContext(ctx, "sign-in refused", "error", err)
		again("The identity provider's answer was not accepted. 登录未被接受，请重试。", a.Next).
			Write(w, r, http.StatusForbidden)
	default:
		s.unreachable(w, r, a.Next, err)
	}
}

// slot takes a slot for calls to the provider. It returns false after it has responded. next is where the attempt goes
// after the sign-in.
func (s *SignIn) slot(
	w http.ResponseWriter, r *http.Request, slots *ratelimit.Bulkhead, next string,
) (ctx context.Context, end func(), ok bool) {
	permit, err := slots.Acquire(r.Context(), "")
	if err != nil {
		again("Very many buyers sign in right now. 登录人数过多，请稍后重试。", next).
			Write(w, r, http.StatusServiceUnavailable)
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*callTimeout) // configuration, code and keys
	return ctx, func() { cancel(); permit.Release() }, true
}

// unreachable responds that the provider does not. next is where the attempt goes after the sign-in.
func (s *SignIn) unreachable(w http.ResponseWriter, r *http.Request, next string, err error) {
	s.tel.Log.WarnContext(r.Context(), "sign-in failed", "error", err)
	again("The identity provider does not respond. Please try again soon. 身份提供方无响应，请稍后重试。", next).
		Write(w, r, http.StatusServiceUnavailable)
}

// again returns a page with a link to another attempt, which goes to the path next.
func again(text, next string) pages.Message {
	link := "/auth/login"
	if next != "/" {
		link += "?next=" + url.QueryEscape(next)
	}
	return pages.Message{Title: "You are not signed in", Text: text, Link: link, Label: "Sign in again · 重新登录"}
}

// redirect responds 302. The path or URL was checked or made by this package.
func redirect(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusFound)
}

// clip bounds a text from the provider.
func clip(s string) string {
	const most = 200
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
