-- What a user keeps of a proposed change, by its text: each part of the change is kept, refused, or edited.
--
-- The daemon names the parts (hunks) of a change by their lines before and after it, and takes an answer for each.
-- Here the lines between the parts must stay as they are; what stands between them in the text is what was kept.

local M = {}

--- Return the lines of a text without their ends.
function M.lines_of(text)
  local lines = vim.split(text or "", "\n")
  if lines[#lines] == "" then
    table.remove(lines)
  end
  return lines
end

local function slice(lines, first, past)
  return vim.list_slice(lines, first + 1, past)
end

local function has_at(lines, part, at)
  for offset, line in ipairs(part) do
    if lines[at + offset] ~= line then
      return false
    end
  end
  return true
end

--- Return what `lines` have in the place of each part, with where it begins from 0; nil if other lines were edited.
--- Where a part may end in several places, one that was kept or refused whole is preferred, unless `is_shortest`.
local function split(diff, lines, is_shortest)
  local old, new, hunks = M.lines_of(diff.oldText), M.lines_of(diff.newText), diff.hunks
  local at, pieces = hunks[1].newStart, {}
  if not has_at(lines, slice(new, 0, at), 0) then
    return
  end
  for number, hunk in ipairs(hunks) do
    local next_hunk = hunks[number + 1]
    local stays = slice(new, hunk.newEnd, next_hunk and next_hunk.newStart or #new)
    local piece = { at = at, proposed = slice(new, hunk.newStart, hunk.newEnd), before = slice(old, hunk.oldStart, hunk.oldEnd) }
    -- Between the parts of a new file nothing stays: an edited one ends where the next one begins as proposed.
    local behind = next_hunk and #stays == 0 and slice(new, next_hunk.newStart, next_hunk.newEnd) or stays
    local past = next_hunk and at or math.max(at, #lines - #stays)
    while next_hunk and past + #behind <= #lines and not has_at(lines, behind, past) do
      past = past + 1
    end
    if #stays == 0 and not has_at(lines, behind, past) then
      past = at
    end
    if past + #stays > #lines or not has_at(lines, stays, past) then
      return
    end
    for _, whole in ipairs(next_hunk and not is_shortest and { #stays > 0 and piece.before or piece.proposed, piece.proposed } or {}) do
      if has_at(lines, whole, at) and has_at(lines, stays, at + #whole) then
        past = at + #whole
      end
    end
    piece.lines = slice(lines, at, past)
    table.insert(pieces, piece)
    at = past + #stays
  end
  return at == #lines and pieces or nil
end

function M.split(diff, lines)
  return split(diff, lines) or split(diff, lines, true)
end

--- Return `lines` with the part nearest to line `at`, from 0, refused; or as proposed, if it was refused or edited.
function M.toggle(diff, lines, at)
  local pieces = assert(M.split(diff, lines), "other lines were edited")
  local nearest, least
  for _, piece in ipairs(pieces) do
    local distance = math.max(piece.at - at, at - math.max(piece.at, piece.at + #piece.lines - 1), 0)
    if not least or distance < least then
      nearest, least = piece, distance
    end
  end
  local is_proposed = vim.deep_equal(nearest.lines, nearest.proposed)
  local result = slice(lines, 0, nearest.at)
  vim.list_extend(result, is_proposed and nearest.before or nearest.proposed)
  return vim.list_extend(result, slice(lines, nearest.at + #nearest.lines, #lines))
end

--- Return the answers about the parts of the diff `number`, from 0, that are not kept as proposed; nil if other lines were edited.
function M.answers(diff, number, lines)
  local pieces = M.split(diff, lines)
  if not pieces then
    return
  end
  local answers = {}
  for at, piece in ipairs(pieces) do
    local answer = { diff = number, hunk = at - 1, accepted = true }
    if vim.deep_equal(piece.lines, piece.before) then
      answer.accepted = false
    elseif not vim.deep_equal(piece.lines, piece.proposed) then
      local is_end = at == #pieces and not vim.endswith(diff.newText, "\n")
      answer.text = table.concat(piece.lines, "\n") .. (#piece.lines > 0 and not is_end and "\n" or "")
    end
    if not answer.accepted or answer.text then
      table.insert(answers, answer)
    end
  end
  return answers
end

return M
