// Generated from services/order/api/openapi.yaml by `npm run types`. Do not edit.

export interface paths {
    "/v1/orders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The buyer's own orders, newest first */
        get: operations["listOrders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{order_sn}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One of the buyer's own orders */
        get: operations["getOrder"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{order_sn}/payments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start a payment of a pending order before its deadline; the deadline does not change */
        post: operations["startPayment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{order_sn}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Close a pending order and release its units. A closed order is returned as it is */
        post: operations["cancelOrder"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{order_sn}/contact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the contact of one of the buyer's own orders */
        get: operations["getContact"];
        /**
         * Give the contact of one of the buyer's own orders, until it is closed or refunded
         * @description Replaces an earlier contact. Spaces around the texts are removed. The texts must not have control characters.
         *     The contact is stored encrypted, and deleted some time after the end of the sale (90 days by default).
         */
        put: operations["putContact"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payments/{payment_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One of the buyer's own payments */
        get: operations["getPayment"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payments/callbacks/{provider}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Receive an event of a payment provider, signed over the raw body
         * @description `Payment-Signature: t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">`, accepted for 5 minutes before and after
         *     t. A repeated event changes nothing. Unknown fields of the body are ignored. An outcome `disputed` (the buyer's
         *     bank asks for the money) or `returned` (money was returned at the provider) raises an incident and changes nothing.
         */
        post: operations["paymentCallback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payments/{payment_id}/sandbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Choose the outcome of one of the buyer's own payments, if PAYMENT_PROVIDERS holds sandbox
         * @description Sends the callback that a provider would send. The event_id is derived from payment, outcome and amount, so
         *     that a repeated call sends the same event.
         */
        post: operations["playSandbox"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @enum {string} */
        OrderState: "pending" | "paid" | "closed" | "refunded";
        OrderList: {
            items: components["schemas"]["Order"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "order_sn": "244837465837465837",
         *       "activity_id": "1",
         *       "activity_title": "Kettles",
         *       "user_id": "42",
         *       "state": "paid",
         *       "lines": [
         *         {
         *           "sku_id": "1",
         *           "name": "Kettle",
         *           "qty": 1,
         *           "unit_price": 9900
         *         }
         *       ],
         *       "amount": 9900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "created_at": "2026-11-21T10:00:01.28Z",
         *       "expires_at": "2026-11-21T10:15:01.28Z",
         *       "paid_at": "2026-11-21T10:02:00.5Z",
         *       "contact_given": true,
         *       "payments": [
         *         {
         *           "payment_id": "4984557191785365628",
         *           "order_sn": "244837465837465837",
         *           "state": "succeeded",
         *           "provider": "sandbox",
         *           "amount": 9900,
         *           "currency": "EUR",
         *           "currency_digits": 2,
         *           "created_at": "2026-11-21T10:01:50.1Z"
         *         }
         *       ],
         *       "refunds": [
         *         {
         *           "refund_id": "4984557191785365628",
         *           "payment_id": "4984557191785365628",
         *           "amount": 9900,
         *           "currency": "EUR",
         *           "currency_digits": 2,
         *           "state": "refunded",
         *           "reason": "second",
         *           "created_at": "2026-11-21T10:03:00.1Z",
         *           "refunded_at": "2026-11-21T10:03:01.1Z"
         *         }
         *       ]
         *     }
         */
        Order: {
            order_sn: string;
            activity_id: string;
            /** @description As inventory had it when it passed the purchase on; later changes do not show. Absent while it is not known */
            activity_title?: string;
            user_id: string;
            state: components["schemas"]["OrderState"];
            lines: components["schemas"]["Line"][];
            /**
             * Format: int64
             * @description Minor units
             */
            amount: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description Payable before this time
             */
            expires_at: string;
            /**
             * Format: date-time
             * @description Of a pending order after expires_at: until then a payment in flight may still pay it
             */
            paying_until?: string;
            /** Format: date-time */
            paid_at?: string;
            /** Format: date-time */
            closed_at?: string;
            /** @enum {string} */
            close_reason?: "expired" | "cancelled" | "rejected";
            /** @description Whether a contact is stored */
            contact_given: boolean;
            /** @description Oldest first */
            payments: components["schemas"]["Payment"][];
            refunds?: components["schemas"]["Refund"][];
        };
        Line: {
            sku_id: string;
            /** @description Name of the SKU */
            name?: string;
            /** Format: int64 */
            qty: number;
            /** Format: int64 */
            unit_price: number;
        };
        /**
         * @example {
         *       "name": "Li Lei",
         *       "phone": "+8613812345678",
         *       "address_lines": [
         *         "1 Renmin Road",
         *         "Shanghai 200001"
         *       ]
         *     }
         */
        Contact: {
            /** @description In characters */
            name: string;
            /**
             * @description A number in E.164, or one of mainland China without a country code. Spaces, hyphens and parentheses are
             *     allowed in requests.
             */
            phone: string;
            address_lines?: string[];
        };
        Refund: {
            /** @description The payment's id; a payment is refunded once and in full */
            refund_id: string;
            payment_id: string;
            /** Format: int64 */
            amount: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /** @enum {string} */
            state: "refund_pending" | "refunded" | "refund_failed";
            /** @description second, late, cancelled, rejected, wrong_amount, no_order, provider, or one given by inventory (no_stock, review) */
            reason: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            refunded_at?: string;
        };
        /**
         * @example {
         *       "payment_id": "4984557191785365628",
         *       "order_sn": "244837465837465837",
         *       "state": "succeeded",
         *       "provider": "sandbox",
         *       "amount": 9900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "created_at": "2026-11-21T10:01:50.1Z"
         *     }
         */
        Payment: {
            payment_id: string;
            order_sn: string;
            /** @enum {string} */
            state: "started" | "succeeded" | "failed";
            provider: string;
            /**
             * Format: int64
             * @description Minor units
             */
            amount: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /** Format: date-time */
            created_at: string;
        };
        PaymentRequest: {
            /** @example sandbox */
            provider: string;
        };
        /**
         * @example {
         *       "payment_id": "4984557191785365628",
         *       "state": "started",
         *       "pay_url": "/v1/payments/4984557191785365628/sandbox"
         *     }
         */
        StartedPayment: {
            payment_id: string;
            /** @enum {string} */
            state: "started";
            /** @description Where the buyer pays: an https URL, or relative to the origin */
            pay_url: string;
        };
        /**
         * @description Codes are compared without case. An event of another outcome changes nothing, and needs no payment_id, amount or
         *     currency.
         * @example {
         *       "event_id": "evt_1",
         *       "payment_id": "4984557191785365628",
         *       "outcome": "succeeded",
         *       "amount": 9900,
         *       "currency": "EUR"
         *     }
         */
        PaymentEvent: {
            event_id: string;
            payment_id?: string;
            /**
             * @description succeeded, failed, disputed or returned
             * @example succeeded
             */
            outcome: string;
            /**
             * Format: int64
             * @description Amount that the provider took
             */
            amount?: number;
            /**
             * @description A code of ISO 4217
             * @example EUR
             */
            currency?: string;
        };
        /**
         * @example {
         *       "outcome": "succeeded"
         *     }
         */
        SandboxRequest: {
            /** @enum {string} */
            outcome: "succeeded" | "failed";
            /**
             * Format: int64
             * @description Default is the amount of the payment
             */
            amount?: number;
        };
        Problem: {
            type: string;
            title: string;
            status: number;
            detail?: string;
            code: string;
            trace_id?: string;
            errors?: {
                field: string;
                message: string;
            }[];
        } & {
            [key: string]: unknown;
        };
    };
    responses: {
        /** @description `invalid_request` */
        InvalidRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unauthenticated` */
        Unauthenticated: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `not_found`, also for a resource of another user */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `body_too_large` */
        BodyTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unsupported_media_type` */
        UnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `internal` */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `rate_limited` (violated_policies) */
        RateLimited: {
            headers: {
                "Retry-After"?: number;
                RateLimit?: string;
                "RateLimit-Policy"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unavailable`; the outcome may be unknown */
        Unavailable: {
            headers: {
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        /** @description A malformed order_sn gets 404. */
        OrderSN: string;
        Limit: number;
        Cursor: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listOrders: {
        parameters: {
            query?: {
                state?: components["schemas"]["OrderState"];
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of orders */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A malformed order_sn gets 404. */
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Order"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    startPayment: {
        parameters: {
            query?: never;
            header: {
                /** @description For 24 h a key stands for one payment. A repeated call goes on with it while the order is pending. */
                "Idempotency-Key": string;
            };
            path: {
                /** @description A malformed order_sn gets 404. */
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PaymentRequest"];
            };
        };
        responses: {
            /** @description Started; the buyer pays at pay_url */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StartedPayment"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            /** @description `order_not_payable`: not pending, past its deadline, or refused by the provider; or `idempotency_conflict` */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            /**
             * @description `provider_busy`: many buyers pay at present; repeat the call with the same key after Retry-After, it keeps its
             *     turn. `unavailable`: the outcome may be unknown; repeat the call with the same key
             */
            503: {
                headers: {
                    "Retry-After"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    cancelOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A malformed order_sn gets 404. */
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The order, closed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Order"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            /** @description `state_conflict`: paid */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getContact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A malformed order_sn gets 404. */
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The contact */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Contact"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            /** @description `not_found`: no such order, or it has no contact */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    putContact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A malformed order_sn gets 404. */
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Contact"];
            };
        };
        responses: {
            /** @description The contact as it is stored, with the phone number in E.164 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Contact"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            /**
             * @description `state_conflict` (`state`): the order is closed or refunded, or the time for which contacts are kept has
             *     ended
             */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getPayment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                payment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The payment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Payment"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    paymentCallback: {
        parameters: {
            query?: never;
            header?: {
                "Payment-Signature"?: string;
            };
            path: {
                provider: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PaymentEvent"];
            };
        };
        responses: {
            /** @description There is no such payment; the event is stored for an operator */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Handled */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            /** @description `state_conflict`: another event has this event_id */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    playSandbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                payment_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SandboxRequest"];
            };
        };
        responses: {
            /** @description The response to the callback was 204 */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
}
