package seckill

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/gate"
)

// noDrawing is for how long no image is drawn after the load shedder has refused a request.
const noDrawing = 10 * time.Second

// captchas are the challenges of this process.
type captchas struct {
	core.Captchas
	slides   *challenge.Slides
	provider *challenge.Remote // nil without one
	shedAt   atomic.Int64      // when the load shedder last refused, Unix ns
}

func (c *captchas) shed() { c.shedAt.Store(time.Now().UnixNano()) }

func (c *captchas) close() {
	if c.provider != nil {
		c.provider.Close()
	}
}

func (s *Service) newCaptchas(cfg Config, gates *stockgate.Gate) (*captchas, error) {
	tel := s.deps.Telemetry
	pow, err := challenge.NewPow(cfg.PathSecrets...)
	if err != nil {
		return nil, err
	}
	c := &captchas{provider: challenge.NewRemote(cfg.Captchas, s.deps.Transport)}
	catalogue := gate.Catalogue{Redis: gates}
	c.slides = challenge.NewSlides(cfg.Captchas.Images, func(ctx context.Context) bool {
		if time.Since(time.Unix(0, c.shedAt.Load())) < noDrawing {
			return false
		}
		wanted, err := catalogue.Slides(ctx, s.sales.Now(ctx))
		return err == nil && wanted
	}, tel.Log)
	c.Captchas = core.Captchas{
		Pows: pow, Slides: c.slides, Spent: challenge.NewSpent(s.deps.Limits.Redis()),
		WorkByRole: cfg.Captchas.Work == challenge.WorkForAccessible,
	}
	if c.provider != nil {
		c.Captchas.Provider = c.provider
		if err := tel.ObserveBreaker("challenge_provider", c.provider.Breaker); err != nil {
			return nil, err
		}
	}
	_, err = tel.Meter.Int64ObservableGauge("flashsale.seckill.captcha.images", metric.WithUnit("{image}"),
		metric.WithDescription("Puzzles that this process has drawn and keeps"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(c.slides.Len()))
			return nil
		}))
	return c, err
}
