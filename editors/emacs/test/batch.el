;;; batch.el --- Drives sidecar.el in a real Emacs against a real daemon  -*- lexical-binding: t; -*-

;;; Commentary:

;; emacs --batch -l batch.el DAEMON...
;; The current folder has an a.py with `answer = 42'.  Exits with 0, with 77 where this Emacs has no such Eglot.

;;; Code:

(unless (and (require 'eglot nil t) (fboundp 'eglot-server-capable))
  (message "needs Eglot 1.17")
  (kill-emacs 77))

(defvar here (file-name-directory load-file-name))
(defvar source (expand-file-name "../sidecar.el" here))
(defvar compiled (make-temp-file "sidecar" nil ".elc"))

(setq byte-compile-error-on-warn t
      byte-compile-dest-file-function (lambda (_) compiled))
(unless (eq t (byte-compile-file source))
  (kill-emacs 1))
(load compiled)
(delete-file compiled)

(defun wait-for (what condition)
  "Wait until CONDITION holds; WHAT says what that is."
  (with-timeout (20 (message "waited in vain for %s" what) (kill-emacs 1))
    (while (not (funcall condition))
      (accept-process-output nil 0.05))))

(defun says (pattern)
  "Wait for a message that matches PATTERN."
  (wait-for pattern (lambda ()
                      (with-current-buffer (messages-buffer)
                        (goto-char (point-min))
                        (re-search-forward pattern nil t)))))

(defun answers ()
  "Return how many answers there are."
  (if (get-buffer "*sidecar*")
      (with-current-buffer "*sidecar*" (how-many "`a.py:1` answer = 42" (point-min)))
    0))

(setq sidecar-command command-line-args-left
      command-line-args-left nil
      eglot-sync-connect 20)
(find-file "a.py")
(sidecar-start)
(sidecar-prompt "what is in a.py?")
(wait-for "an answer" (lambda () (= (answers) 1)))
(setq transient-mark-mode t)
(push-mark (point-min) t t)
(goto-char (point-max))
(sidecar-prompt "and in a.py here?")
(wait-for "an answer about the region" (lambda () (= (answers) 2)))
(sidecar-new)
(says "begins a new conversation")
(let ((completing-read-function (lambda (_prompt named &rest _) (caar named))))
  (sidecar-resume))
(says "Goes on: what is in a.py")
(sidecar-context)
(says "a.py: [0-9]+ tokens")
(sidecar-compact)
(says "^started")
(sidecar-undo)
(says "tokens are back")
(sidecar-interrupt)
(says "Nothing runs")

(goto-char (point-min))
(insert "# ")
(wait-for "a hint that the file changed"
          (lambda ()
            (eglot--signal-textDocument/didChange)
            (flymake-start)
            (seq-some (lambda (hint) (string-match-p "changed since" (flymake-diagnostic-text hint)))
                      (flymake-diagnostics))))
(set-buffer-modified-p nil)
(message "done")
(kill-emacs 0)

;;; batch.el ends here
