-- +goose Up
-- captcha is the kind of an activity's challenge, captcha_difficulty the number of hashes, in thousands, that a proof of
-- work takes at most.
ALTER TABLE activities ADD COLUMN captcha TEXT NOT NULL DEFAULT 'none';
ALTER TABLE activities ADD COLUMN captcha_difficulty BIGINT NOT NULL DEFAULT 50;

-- +goose Down
ALTER TABLE activities DROP COLUMN captcha;
ALTER TABLE activities DROP COLUMN captcha_difficulty;
